#include "iscsi/logical_unit.h"

#include <algorithm>
#include <thread>

namespace berth::iscsi {

using base::Error;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using std::chrono::milliseconds;

namespace {

constexpr int kMostAttentions = 10;
constexpr milliseconds kUnitBusyPause{50};
constexpr uint16_t kUnknownCommand = 0x2000;
constexpr uint16_t kInvalidField = 0x2400;
constexpr uint16_t kNoSuchUnit = 0x2500;
constexpr uint8_t kNotReady = 0x04;  // the upper byte of its codes
constexpr uint16_t kStandby = 0x040b, kUnavailableHere = 0x040c;
constexpr size_t kMostLuns = 16384;
constexpr size_t kMiB = size_t{1} << 20;
constexpr uint64_t kSamples = 16;
constexpr uint64_t kSampleBytes = 4096;

// A page of vital product data; empty: the logical unit has no such page.
StatusOr<std::vector<uint8_t>> ReadPage(LogicalUnit& unit, uint8_t page) {
  std::vector<uint8_t> data(1024);
  const Answer answer = unit.Run(InquirePage(page, data));
  if (answer.outcome == Answer::Outcome::kCheckCondition &&
      answer.sense_key == kSenseIllegalRequest && answer.sense_code != kNoSuchUnit) {
    return std::vector<uint8_t>();
  }
  if (!answer.good()) return AnswerError(answer, fmt::format("inquire page {:#04x}", page));
  data.resize(answer.bytes);
  return data;
}

StatusOr<StandardInquiry> ReadInquiry(LogicalUnit& unit) {
  std::vector<uint8_t> data(96);
  const Answer answer = unit.Run(Inquire(data));
  if (!answer.good()) return AnswerError(answer, "inquire");
  return ParseInquiry({data.data(), answer.bytes});
}

bool IsZero(Bytes data) {
  return std::ranges::all_of(data, [](uint8_t byte) { return byte == 0; });
}

struct Names {
  std::string identity, serial;
};

StatusOr<Names> ReadNames(LogicalUnit& unit, const StandardInquiry& inquiry) {
  Names names;
  ASSIGN_OR_RETURN(const auto serial_page, ReadPage(unit, 0x80));
  if (!serial_page.empty()) {
    ASSIGN_OR_RETURN(names.serial, ParseSerial(serial_page));
  }
  ASSIGN_OR_RETURN(const auto page, ReadPage(unit, 0x83));
  Designator designator;
  if (!page.empty()) {
    auto parsed = ParseDesignator(page);
    if (!parsed.ok() && parsed.status().code() != StatusCode::kNotFound) return parsed.status();
    if (parsed.ok()) designator = *parsed;
  }
  if (!designator.unique && names.serial.empty()) {
    return Error(StatusCode::kFailedPrecondition,
                 "the logical unit has neither a unique name (page 0x83) nor a serial number (page "
                 "0x80), so it could not be told from another");
  }
  // The serial number is always a part, because some targets derive the name from the LUN's number.
  names.identity = designator.unique ? designator.name
                                     : fmt::format("{}{}{}.{}", designator.name,
                                                   designator.name.empty() ? "" : "/",
                                                   inquiry.vendor, inquiry.product);
  if (!names.serial.empty()) names.identity += "/" + names.serial;
  return names;
}

}  // namespace

Answer SessionUnit::Run(const Command& command) {
  int attentions = 0;
  while (true) {
    const Answer answer = session_.Run(lun_, command, deadline_);
    const bool attention =
        answer.outcome == Answer::Outcome::kCheckCondition &&
        (answer.sense_key == kSenseUnitAttention || answer.sense_key == kSenseCommandAborted);
    const bool busy = answer.outcome == Answer::Outcome::kBusy ||
                      answer.outcome == Answer::Outcome::kAborted ||
                      (IsNotReady(answer) && !IsNotReadyHere(answer));
    if (attention && answer.sense_key == kSenseUnitAttention && on_attention_ != nullptr) {
      on_attention_(answer.sense_code);
    }
    if (attention && ++attentions <= kMostAttentions) continue;
    if (!busy || std::chrono::steady_clock::now() + kUnitBusyPause >= deadline_) return answer;
    std::this_thread::sleep_for(kUnitBusyPause);
  }
}

bool IsNotReady(const Answer& answer) {
  return answer.outcome == Answer::Outcome::kCheckCondition && answer.sense_key == kSenseNotReady &&
         answer.sense_code >> 8 == kNotReady;
}

bool IsNotReadyHere(const Answer& answer) {
  return IsNotReady(answer) &&
         (answer.sense_code == kStandby || answer.sense_code == kUnavailableHere);
}

Status AnswerError(const Answer& answer, std::string_view what) {
  StatusCode code = StatusCode::kInternal;
  if (answer.outcome == Answer::Outcome::kLost || answer.outcome == Answer::Outcome::kBusy ||
      IsNotReady(answer)) {
    code = StatusCode::kUnavailable;
  } else if (answer.outcome == Answer::Outcome::kConflict) {
    code = StatusCode::kFailedPrecondition;
  } else if (answer.sense_key == kSenseIllegalRequest && answer.sense_code == kNoSuchUnit) {
    return Error(StatusCode::kNotFound, "{}: the target has no such LUN", what);
  } else if (answer.sense_key == kSenseIllegalRequest &&
             (answer.sense_code == kUnknownCommand || answer.sense_code == kInvalidField)) {
    code = StatusCode::kUnimplemented;
  }
  return Error(code, "{}: {}", what, DescribeAnswer(answer));
}

StatusOr<Capacity> ReadCapacityOf(LogicalUnit& unit) {
  std::vector<uint8_t> data(32);
  const Answer answer = unit.Run(ReadCapacity(data));
  if (!answer.good()) return AnswerError(answer, "read capacity");
  return ParseCapacity({data.data(), answer.bytes});
}

StatusOr<std::string> ReadIdentity(LogicalUnit& unit) {
  ASSIGN_OR_RETURN(const StandardInquiry inquiry, ReadInquiry(unit));
  ASSIGN_OR_RETURN(const Names names, ReadNames(unit, inquiry));
  return names.identity;
}

bool IsLio(std::string_view vendor) { return vendor == "LIO-ORG"; }

StatusOr<bool> IsLio(LogicalUnit& unit) {
  ASSIGN_OR_RETURN(const StandardInquiry inquiry, ReadInquiry(unit));
  return IsLio(inquiry.vendor);
}

StatusOr<UnitInfo> Inspect(LogicalUnit& unit) {
  ASSIGN_OR_RETURN(const StandardInquiry inquiry, ReadInquiry(unit));
  if (inquiry.device_type != 0) {
    return Error(StatusCode::kFailedPrecondition, "the logical unit is no disk, but of type {:#x}",
                 inquiry.device_type);
  }
  ASSIGN_OR_RETURN(const Names names, ReadNames(unit, inquiry));
  UnitInfo info{.identity = names.identity,
                .serial = names.serial,
                .vendor = inquiry.vendor,
                .product = inquiry.product,
                .capacity = {},
                .limits = {}};
  ASSIGN_OR_RETURN(info.capacity, ReadCapacityOf(unit));
  ASSIGN_OR_RETURN(const auto limits, ReadPage(unit, 0xb0));
  if (!limits.empty()) {
    ASSIGN_OR_RETURN(info.limits, ParseLimits(limits));
  }
  return info;
}

StatusOr<std::vector<uint16_t>> ListLuns(LogicalUnit& unit) {
  // The answer to a buffer that is too short says how long the whole list is.
  for (size_t room = 256; true; room = kMostLuns) {
    std::vector<uint8_t> data(8 + 8 * room);
    const Answer answer = unit.Run(ReportLuns(data));
    if (!answer.good()) return AnswerError(answer, "list the LUNs");
    const Bytes list(data.data(), answer.bytes);
    if (room == kMostLuns || !IsCutOff(list)) return ParseLuns(list);
  }
}

StatusOr<bool> IsBlank(LogicalUnit& unit, const Capacity& capacity) {
  const uint32_t block = capacity.block_bytes;
  std::vector<uint8_t> data(256 * 1024);
  const auto reads_zero = [&](uint64_t first, uint64_t blocks) -> StatusOr<bool> {
    const std::span<uint8_t> into(data.data(), blocks * block);
    const Answer answer = unit.Run(Read(first, static_cast<uint32_t>(blocks), into));
    if (!answer.good() || answer.bytes != into.size()) {
      return AnswerError(answer, fmt::format("read block {}", first));
    }
    return IsZero(into);
  };
  const uint64_t chunk = std::min<uint64_t>(data.size() / block, capacity.blocks);
  const uint64_t edge = std::min<uint64_t>(kMiB / block, capacity.blocks);
  for (uint64_t at = 0; at < edge; at += chunk) {
    for (const uint64_t first : {std::min(at, capacity.blocks - chunk),
                                 capacity.blocks - std::min(at + chunk, capacity.blocks)}) {
      ASSIGN_OR_RETURN(const bool zero, reads_zero(first, chunk));
      if (!zero) return false;
    }
  }
  const uint64_t sample = std::min<uint64_t>(kSampleBytes / block, capacity.blocks);
  for (uint64_t i = 1; i < kSamples; ++i) {
    const uint64_t first = std::min(capacity.blocks / kSamples * i, capacity.blocks - sample);
    ASSIGN_OR_RETURN(const bool zero, reads_zero(first, sample));
    if (!zero) return false;
  }
  return true;
}

}  // namespace berth::iscsi
