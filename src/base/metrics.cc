#include "base/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <set>

#include "base/mutex.h"

namespace berth::base {

struct Metrics::Impl {
  using Collect = std::function<void(Gauges&)>;

  class CollectorImpl : public Collector {
   public:
    CollectorImpl(Impl& impl, Collect collect) : impl_(impl), collect_(std::move(collect)) {
      MutexLock lock(impl_.mutex);
      impl_.collects.insert(&collect_);
    }
    ~CollectorImpl() override {
      MutexLock lock(impl_.mutex);
      impl_.collects.erase(&collect_);
    }

   private:
    Impl& impl_;
    const Collect collect_;
  };

  prometheus::Registry registry;
  Mutex mutex;  // held while the functions run, so that a collector's end waits for them
  std::set<const Collect*> collects ABSL_GUARDED_BY(mutex);
};

Metrics::Metrics() : impl_(std::make_unique<Impl>()) {}
Metrics::~Metrics() = default;

// Register and Add return the existing family and metric if there are some with the same name and
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

void Metrics::Gauges::Add(const Description& gauge, const Labels& labels, double value) {
  families_.try_emplace(gauge.name, Family{&gauge, {}}).first->second.values[labels] += value;
}

void Metrics::Gauges::Raise(const Description& gauge, const Labels& labels, double value) {
  double& now = families_.try_emplace(gauge.name, Family{&gauge, {}}).first->second.values[labels];
  now = std::max(now, value);
}

std::unique_ptr<Metrics::Collector> Metrics::CollectWith(std::function<void(Gauges&)> collect) {
  return std::make_unique<Impl::CollectorImpl>(*impl_, std::move(collect));
}

std::string Metrics::RenderText() const {
  Gauges gauges;
  {
    MutexLock lock(impl_->mutex);
    for (const Impl::Collect* collect : impl_->collects) (*collect)(gauges);
  }
  std::vector<prometheus::MetricFamily> families = impl_->registry.Collect();
  for (const auto& [name, gauge] : gauges.families_) {
    prometheus::MetricFamily& family = families.emplace_back();
    family.name = name;
    family.help = gauge.description->help;
    family.type = prometheus::MetricType::Gauge;
    for (const auto& [labels, value] : gauge.values) {
      prometheus::ClientMetric& metric = family.metric.emplace_back();
      for (const auto& [label, text] : labels) metric.label.push_back({label, text});
      metric.gauge.value = value;
    }
  }
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace berth::base
