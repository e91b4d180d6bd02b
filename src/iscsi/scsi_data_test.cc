#include "iscsi/scsi_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/assert_ok.h"

namespace berth::iscsi {
namespace {

using base::StatusCode;
using std::vector;
using testing::ElementsAre;

vector<uint8_t> Page(uint8_t code, const vector<uint8_t>& content) {
  vector<uint8_t> page = {0, code, static_cast<uint8_t>(content.size() >> 8),
                          static_cast<uint8_t>(content.size())};
  page.insert(page.end(), content.begin(), content.end());
  return page;
}

vector<uint8_t> Text(std::string_view text) { return {text.begin(), text.end()}; }

vector<uint8_t> Designation(uint8_t code_set, uint8_t type, const vector<uint8_t>& id) {
  vector<uint8_t> bytes = {code_set, type, 0, static_cast<uint8_t>(id.size())};
  bytes.insert(bytes.end(), id.begin(), id.end());
  return bytes;
}

vector<uint8_t> operator+(vector<uint8_t> a, const vector<uint8_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// READ KEYS with generation 7.
vector<uint8_t> KeysAnswer(uint32_t length, const vector<uint8_t>& keys) {
  return vector<uint8_t>{0,
                         0,
                         0,
                         7,
                         static_cast<uint8_t>(length >> 24),
                         static_cast<uint8_t>(length >> 16),
                         static_cast<uint8_t>(length >> 8),
                         static_cast<uint8_t>(length)} +
         keys;
}

TEST(LunListTest, HasDisksOfOneLevelInOrder) {
  const vector<uint8_t> answer = {0,    0,    0, 40, 0, 0, 0, 0,   //
                                  0x41, 0x2c, 0, 0,  0, 0, 0, 0,   // flat 300
                                  0,    1,    0, 0,  0, 0, 0, 0,   // peripheral 1
                                  0,    1,    0, 2,  0, 0, 0, 0,   // a second level
                                  0xc1, 1,    0, 0,  0, 0, 0, 0,   // well-known
                                  1,    5,    0, 0,  0, 0, 0, 0};  // another bus
  EXPECT_THAT(*ParseLuns(answer), ElementsAre(1, 300));
}

TEST(LunListTest, ALengthBeyondTheAnswerIsRefused) {
  EXPECT_EQ(
      ParseLuns(vector<uint8_t>{0, 0, 0, 16, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0}).status().code(),
      StatusCode::kDataLoss);
  EXPECT_EQ(ParseLuns(vector<uint8_t>(7)).status().code(), StatusCode::kDataLoss);
}

vector<uint8_t> CapacityAnswer(const vector<uint8_t>& last, const vector<uint8_t>& block,
                               uint8_t flags) {
  return last + block + vector<uint8_t>{0, 0, flags, 0};
}

TEST(LunListTest, TellsWhetherItIsCutOff) {
  vector<uint8_t> answer = {0, 0, 0, 8, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0};
  EXPECT_FALSE(IsCutOff(answer));
  answer[3] = 16;
  EXPECT_TRUE(IsCutOff(answer));
  EXPECT_FALSE(IsCutOff({}));
}

TEST(LimitsTest, HasThoseOfTransfersAndOfWriteSame) {
  vector<uint8_t> content(60);
  content[6] = 1;   // 256 blocks
  content[38] = 2;  // 512 blocks
  const auto limits = ParseLimits(Page(0xb0, content));
  ASSERT_OK(limits);
  EXPECT_EQ(limits->max_transfer, 256u);
  EXPECT_EQ(limits->max_write_same, 512u);
}

TEST(LimitsTest, AShortPageOfAnOlderTargetHasNoLimitOfWriteSame) {
  const auto limits = ParseLimits(Page(0xb0, vector<uint8_t>(12)));
  ASSERT_OK(limits);
  EXPECT_EQ(limits->max_write_same, 0u);
}

TEST(CapacityTest, HasBlocksAndThinProvisioning) {
  const auto capacity =
      ParseCapacity(CapacityAnswer({0, 0, 0, 1, 0, 0, 0, 0}, {0, 0, 0x10, 0}, 0xc0));
  ASSERT_OK(capacity);
  EXPECT_EQ(capacity->blocks, (uint64_t{1} << 32) + 1);
  EXPECT_EQ(capacity->block_bytes, 4096u);
  EXPECT_TRUE(capacity->thin);
  // A block that is unmapped there may still read as what it was.
  const auto dirty = ParseCapacity(CapacityAnswer({0, 0, 0, 1, 0, 0, 0, 0}, {0, 0, 0x10, 0}, 0x80));
  ASSERT_OK(dirty);
  EXPECT_FALSE(dirty->thin);
}

TEST(CapacityTest, OddBlocksAndImpossibleSizesAreRefused) {
  EXPECT_EQ(
      ParseCapacity(CapacityAnswer({0, 0, 0, 0, 0, 0, 0, 9}, {0, 0, 2, 8}, 0)).status().code(),
      StatusCode::kFailedPrecondition);  // 520
  EXPECT_EQ(
      ParseCapacity(CapacityAnswer({0, 0, 0, 0, 0, 0, 0, 9}, {0, 0, 0, 0}, 0)).status().code(),
      StatusCode::kFailedPrecondition);
  EXPECT_EQ(
      ParseCapacity(CapacityAnswer(vector<uint8_t>(8, 0xff), {0, 0, 2, 0}, 0)).status().code(),
      StatusCode::kDataLoss);
  EXPECT_EQ(ParseCapacity(vector<uint8_t>(14)).status().code(), StatusCode::kDataLoss);
}

TEST(DesignatorTest, AWorldWideNameWinsOverOneThatWasChosen) {
  const auto page = Page(0x83, Designation(2, 1, Text("IET     00010001")) +
                                   Designation(1, 3, {0x60, 1, 2, 3, 4, 5, 6, 7}));
  const auto found = ParseDesignator(page);
  ASSERT_OK(found);
  EXPECT_EQ(found->name, "naa.6001020304050607");
  EXPECT_TRUE(found->unique);
}

TEST(DesignatorTest, ALocalNameIsNotUnique) {
  const auto found = ParseDesignator(Page(0x83, Designation(1, 3, {0x30, 0, 0, 0, 0, 0, 0, 1})));
  ASSERT_OK(found);
  EXPECT_FALSE(found->unique);
}

TEST(DesignatorTest, TheNameOfAPortIsNotTheLuns) {
  const auto page = Page(0x83, Designation(1, 0x13, {0x60, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(ParseDesignator(page).status().code(), StatusCode::kNotFound);
}

TEST(DesignatorTest, LengthsBeyondThePageAreRefused) {
  vector<uint8_t> page = Page(0x83, Designation(1, 3, {0x60, 1, 2, 3, 4, 5, 6, 7}));
  page[7] = 200;  // the designator's own length
  EXPECT_EQ(ParseDesignator(page).status().code(), StatusCode::kDataLoss);
  page[3] = 255;  // the page's
  EXPECT_EQ(ParseDesignator(page).status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(ParseDesignator(Page(0x80, {})).status().code(), StatusCode::kDataLoss);
}

TEST(SerialTest, IsPlainTextWithoutSpacesAroundIt) {
  EXPECT_EQ(*ParseSerial(Page(0x80, Text("  beaf1\x01\"1 "))), "beaf1?\"1");
}

TEST(KeysTest, AreReadWithTheirGeneration) {
  const auto keys = ParseKeys(KeysAnswer(8, {0, 0, 0, 0, 0, 0, 0, 9}));
  ASSERT_OK(keys);
  EXPECT_EQ(keys->generation, 7u);
  EXPECT_THAT(keys->keys, ElementsAre(9));
  EXPECT_EQ(keys->whole_bytes, 16u);
}

TEST(KeysTest, AListThatIsCutOffTellsItsWholeLength) {
  const auto keys = ParseKeys(KeysAnswer(64, {0, 0, 0, 0, 0, 0, 0, 9, 1, 2}));
  ASSERT_OK(keys);
  EXPECT_THAT(keys->keys, ElementsAre(9));
  EXPECT_EQ(keys->whole_bytes, 72u);
}

TEST(KeysTest, ImpossibleLengthsAreRefused) {
  EXPECT_EQ(ParseKeys(KeysAnswer(12, vector<uint8_t>(16))).status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(ParseKeys(KeysAnswer(0xfffffff8, vector<uint8_t>(16))).status().code(),
            StatusCode::kDataLoss);
  EXPECT_EQ(ParseKeys(vector<uint8_t>(5)).status().code(), StatusCode::kDataLoss);
}

TEST(ReservationTest, HasTypeAndHolder) {
  vector<uint8_t> answer(24);
  answer[7] = 16;
  answer[15] = 42;
  answer[21] = 0x05;
  const auto held = ParseReservation(answer);
  ASSERT_OK(held);
  EXPECT_EQ(held->key, 42u);
  EXPECT_EQ(held->type, ReservationType::kWriteExclusiveRegistrantsOnly);
}

TEST(ReservationTest, WithoutOneThereIsNoHolder) {
  const auto held = ParseReservation(vector<uint8_t>(8));
  ASSERT_OK(held);
  EXPECT_EQ(held->type, ReservationType::kNone);
}

TEST(ReservationTest, AShortDescriptorIsRefused) {
  vector<uint8_t> answer(24);
  answer[7] = 15;
  EXPECT_EQ(ParseReservation(answer).status().code(), StatusCode::kDataLoss);
  answer[7] = 16;
  answer.resize(23);
  EXPECT_EQ(ParseReservation(answer).status().code(), StatusCode::kDataLoss);
}

vector<uint8_t> FullDescriptor(uint8_t key, bool holder, std::string_view initiator) {
  vector<uint8_t> id = {0x45, 0, 0, static_cast<uint8_t>(initiator.size())};
  id = id + Text(initiator);
  vector<uint8_t> one(24);
  one[7] = key;
  one[12] = holder ? 1 : 0;
  one[23] = static_cast<uint8_t>(id.size());
  return one + id;
}

TEST(FullStatusTest, NamesTheInitiators) {
  const auto two =
      FullDescriptor(1, true, "iqn.a:n1,i,0x80001") + FullDescriptor(2, false, "iqn.b");
  const auto status = ParseFullStatus(KeysAnswer(static_cast<uint32_t>(two.size()), two));
  ASSERT_OK(status);
  ASSERT_EQ(status->registrations.size(), 2u);
  EXPECT_EQ(status->registrations[0].initiator, "iqn.a:n1");
  EXPECT_TRUE(status->registrations[0].holder);
  EXPECT_EQ(status->registrations[1].initiator, "iqn.b");
  EXPECT_EQ(status->registrations[1].key, 2u);
}

TEST(FullStatusTest, ADescriptorBeyondTheAnswerIsRefused) {
  auto one = FullDescriptor(1, true, "iqn.a");
  one[22] = 0xff;
  EXPECT_EQ(ParseFullStatus(KeysAnswer(static_cast<uint32_t>(one.size()), one)).status().code(),
            StatusCode::kDataLoss);
}

TEST(WriteCacheTest, IsReadBehindBlockDescriptors) {
  vector<uint8_t> answer(8 + 8 + 20);
  answer[7] = 8;
  answer[16] = 8;
  answer[18] = 0x04;
  EXPECT_TRUE(*ParseWriteCache(answer));
  answer[7] = 0xff;  // the descriptors' length
  EXPECT_EQ(ParseWriteCache(answer).status().code(), StatusCode::kDataLoss);
}

// Sanitizers see any read past the end; each parser must also end.
TEST(ScsiDataTest, RandomAnswersAreReadWithinTheirBounds) {
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) {
    vector<uint8_t> answer(random() % 80);
    for (uint8_t& byte : answer) byte = static_cast<uint8_t>(random() % 4 == 0 ? random() : 0);
    if (answer.size() > 1 && i % 2 == 0) answer[1] = 0x83;
    const size_t most = answer.size();
    (void)ParseCapacity(answer);
    (void)ParseLimits(answer);
    (void)ParseInquiry(answer);
    (void)ParseSerial(answer);
    (void)ParseDesignator(answer);
    (void)ParseWriteCache(answer);
    (void)ParseReservation(answer);
    (void)ParseKeepsOverPowerLoss(answer);
    if (const auto luns = ParseLuns(answer); luns.ok()) EXPECT_LE(luns->size(), most / 8);
    if (const auto keys = ParseKeys(answer); keys.ok()) EXPECT_LE(keys->keys.size(), most / 8);
    if (const auto status = ParseFullStatus(answer); status.ok()) {
      EXPECT_LE(status->registrations.size(), most / 24);
    }
  }
}

}  // namespace
}  // namespace berth::iscsi
