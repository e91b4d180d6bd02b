// Finds and checks the steps of an adoption, for the tests of pools and of folders of images.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <vector>

#include "base/status.h"
#include "block/images/image_adoption.h"

namespace berth::block {

using AdoptionSteps = base::StatusOr<std::vector<AdoptionStep>>;

// Fails the test if there is no step for the volume or image `id`.
inline AdoptionStep StepOf(const AdoptionSteps& steps, const std::string& id) {
  EXPECT_TRUE(steps.ok()) << steps.status();
  for (const AdoptionStep& step : steps.value_or(std::vector<AdoptionStep>())) {
    if (step.record.id == id) return step;
  }
  ADD_FAILURE() << "no step for " << id;
  return {};
}

// Expects that the plan and the adoption refuse `id` for the reason `why`.
inline void ExpectRefusals(std::initializer_list<AdoptionSteps> plan_and_adoption,
                           const std::string& id, const std::string& why) {
  for (const AdoptionSteps& steps : plan_and_adoption) {
    const AdoptionStep step = StepOf(steps, id);
    EXPECT_EQ(step.kind, AdoptionStep::Kind::kRefuse) << step.detail;
    EXPECT_THAT(step.detail, testing::HasSubstr(why));
  }
}

}  // namespace berth::block
