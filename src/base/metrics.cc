#include "base/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

namespace berth::base {

struct Metrics::Impl {
  prometheus::Registry registry;
};

Metrics::Metrics() : impl_(std::make_unique<Impl>()) {}
Metrics::~Metrics() = default;

// Register and Add return the existing family and figure if there are some with the same name and
// labels.

void Metrics::Observe(const Description& histogram, const Labels& labels, double value) {
  prometheus::BuildHistogram()
      .Name(histogram.name)
      .Help(histogram.help)
      .Register(impl_->registry)
      .Add(labels, histogram.buckets)
      .Observe(value);
}

void Metrics::Count(const Description& counter, const Labels& labels, double by) {
  prometheus::BuildCounter()
      .Name(counter.name)
      .Help(counter.help)
      .Register(impl_->registry)
      .Add(labels)
      .Increment(by);
}

void Metrics::Set(const Description& gauge, const Labels& labels, double value) {
  prometheus::BuildGauge()
      .Name(gauge.name)
      .Help(gauge.help)
      .Register(impl_->registry)
      .Add(labels)
      .Set(value);
}

void Metrics::Remove(const Description& gauge, const Labels& labels) {
  auto& family =
      prometheus::BuildGauge().Name(gauge.name).Help(gauge.help).Register(impl_->registry);
  family.Remove(&family.Add(labels));
}

std::string Metrics::RenderText() const {
  return prometheus::TextSerializer().Serialize(impl_->registry.Collect());
}

}  // namespace berth::base
