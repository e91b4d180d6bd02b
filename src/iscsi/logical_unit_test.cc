#include "iscsi/logical_unit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/assert_ok.h"

namespace berth::iscsi {
namespace {

// Answers REPORT LUNS with `count` LUNs, as far as the buffer goes.
class UnitOfManyLuns : public LogicalUnit {
 public:
  explicit UnitOfManyLuns(size_t count) : list_(8 + 8 * count) {
    for (int i = 0; i < 4; ++i) list_[static_cast<size_t>(i)] = (8 * count) >> (24 - 8 * i) & 0xff;
    for (size_t i = 0; i < count; ++i) {
      list_[8 + 8 * i] = static_cast<uint8_t>(0x40 | i >> 8);  // a flat number
      list_[9 + 8 * i] = static_cast<uint8_t>(i);
    }
  }
  Answer Run(const Command& command) override {
    const size_t bytes = std::min(list_.size(), command.in.size());
    std::copy_n(list_.begin(), bytes, command.in.begin());
    return {.outcome = Answer::Outcome::kGood, .bytes = bytes};
  }
  base::Status Reset() override { return base::OkStatus(); }

 private:
  std::vector<uint8_t> list_;
};

TEST(ListLunsTest, ATargetMayHaveEachNumberOfOneLevel) {
  for (const size_t count : {1u, 256u, 257u, 1024u, 1025u, 16384u}) {
    UnitOfManyLuns unit(count);
    const auto luns = ListLuns(unit);
    ASSERT_OK(luns);
    ASSERT_EQ(luns->size(), count);
    EXPECT_EQ(luns->back(), count - 1);
  }
}

TEST(ListLunsTest, AListOfMoreThanAllNumbersIsRefused) {
  UnitOfManyLuns unit(16385);
  EXPECT_EQ(ListLuns(unit).status().code(), base::StatusCode::kDataLoss);
}

TEST(NotReadyTest, TellsWhetherAnotherPortalMayHelp) {
  const auto not_ready = [](uint16_t code) {
    return Answer{.outcome = Answer::Outcome::kCheckCondition,
                  .sense_key = kSenseNotReady,
                  .sense_code = code};
  };
  EXPECT_TRUE(IsNotReady(not_ready(0x0401)) && !IsNotReadyHere(not_ready(0x0401)));
  EXPECT_TRUE(IsNotReadyHere(not_ready(0x040b)) && IsNotReadyHere(not_ready(0x040c)));
  EXPECT_FALSE(IsNotReady(not_ready(0x3a00))) << "a medium that is missing does not come by itself";
  EXPECT_EQ(AnswerError(not_ready(0x0401), "read").code(), base::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace berth::iscsi
