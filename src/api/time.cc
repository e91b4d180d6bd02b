#include "api/time.h"

#include <fmt/format.h>

#include <optional>

#include "base/log.h"

namespace berth::api {
namespace {

using base::WallTime;
using std::chrono::days;
using std::chrono::floor;
using std::chrono::seconds;

std::string FormatDateTime(WallTime time) {
  const auto day = floor<days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(floor<seconds>(time) - day);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     clock.hours().count(), clock.minutes().count(), clock.seconds().count());
}

// Reads the parts of a time, one after the other.
class TimeReader {
 public:
  explicit TimeReader(std::string_view text) : rest_(text) {}

  // Reads exactly `width` digits, whose value must be within [low, high].
  std::optional<int> ReadNumber(size_t width, int low, int high) {
    if (rest_.size() < width) return std::nullopt;
    int value = 0;
    for (const char c : rest_.substr(0, width)) {
      if (c < '0' || c > '9') return std::nullopt;
      value = value * 10 + (c - '0');
    }
    rest_.remove_prefix(width);
    if (value < low || value > high) return std::nullopt;
    return value;
  }

  // Skips the next character if it is one of `any_of`.
  bool SkipOneOf(std::string_view any_of) {
    if (rest_.empty() || any_of.find(rest_.front()) == std::string_view::npos) return false;
    rest_.remove_prefix(1);
    return true;
  }

  // Reads up to nine digits behind the point, as nanoseconds.
  std::optional<int64_t> ReadFraction() {
    int64_t value = 0;
    int digits = 0;
    for (; !rest_.empty() && rest_.front() >= '0' && rest_.front() <= '9'; rest_.remove_prefix(1)) {
      if (++digits > 9) return std::nullopt;
      value = value * 10 + (rest_.front() - '0');
    }
    if (digits == 0) return std::nullopt;
    for (; digits < 9; ++digits) value *= 10;
    return value;
  }

  char front() const { return rest_.empty() ? '\0' : rest_.front(); }
  bool done() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

// Reads the offset, in minutes east of UTC.
std::optional<int> ReadOffset(TimeReader& reader) {
  if (reader.SkipOneOf("Zz")) return 0;
  const bool west = reader.front() == '-';
  if (!reader.SkipOneOf("+-")) return std::nullopt;
  const auto hours = reader.ReadNumber(2, 0, 23);
  if (!hours || !reader.SkipOneOf(":")) return std::nullopt;
  const auto minutes = reader.ReadNumber(2, 0, 59);
  if (!minutes) return std::nullopt;
  const int offset = *hours * 60 + *minutes;
  return west ? -offset : offset;
}

std::optional<WallTime> ReadDateTime(std::string_view text) {
  TimeReader reader(text);
  const auto year = reader.ReadNumber(4, 1678, 2261);
  if (!year || !reader.SkipOneOf("-")) return std::nullopt;
  const auto month = reader.ReadNumber(2, 1, 12);
  if (!month || !reader.SkipOneOf("-")) return std::nullopt;
  const auto day = reader.ReadNumber(2, 1, 31);
  if (!day || !reader.SkipOneOf("Tt")) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(*year),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok()) return std::nullopt;
  const auto hour = reader.ReadNumber(2, 0, 23);
  if (!hour || !reader.SkipOneOf(":")) return std::nullopt;
  const auto minute = reader.ReadNumber(2, 0, 59);
  if (!minute || !reader.SkipOneOf(":")) return std::nullopt;
  const auto second = reader.ReadNumber(2, 0, 59);
  if (!second) return std::nullopt;
  int64_t nanos = 0;
  if (reader.SkipOneOf(".")) {
    const auto fraction = reader.ReadFraction();
    if (!fraction) return std::nullopt;
    nanos = *fraction;
  }
  const auto offset = ReadOffset(reader);
  if (!offset || !reader.done()) return std::nullopt;
  return WallTime(std::chrono::sys_days(date)) + std::chrono::hours(*hour) +
         std::chrono::minutes(*minute - *offset) + seconds(*second) +
         std::chrono::nanoseconds(nanos);
}

// "4h5m"; "4h" if the second part is zero.
std::string FormatTwoParts(int64_t first, char first_unit, int64_t second, char second_unit) {
  return second == 0 ? fmt::format("{}{}", first, first_unit)
                     : fmt::format("{}{}{}{}", first, first_unit, second, second_unit);
}

}  // namespace

std::string FormatTime(WallTime time) { return FormatDateTime(time) + "Z"; }

std::string FormatMicroTime(WallTime time) {
  const auto fraction = floor<std::chrono::microseconds>(time) - floor<seconds>(time);
  return fmt::format("{}.{:06}Z", FormatDateTime(time), fraction.count());
}

base::StatusOr<WallTime> ParseTime(std::string_view text) {
  const std::optional<WallTime> time = ReadDateTime(text);
  if (!time) {
    return base::Error(base::StatusCode::kInvalidArgument,
                       "{} is not an RFC 3339 time such as 2026-01-31T12:00:00Z",
                       base::Quote(text));
  }
  return *time;
}

std::string FormatAge(seconds age) {
  const int64_t s = age.count();
  // As in kubectl, an age of down to -1 s counts as a rounding error; a lower one means that the
  // other clock is ahead of ours.
  if (s < -1) return "<invalid>";
  if (s < 0) return "0s";
  if (s < 120) return fmt::format("{}s", s);
  const int64_t minutes = s / 60;
  if (minutes < 10) return FormatTwoParts(minutes, 'm', s % 60, 's');
  if (minutes < 180) return fmt::format("{}m", minutes);
  const int64_t hours = minutes / 60;
  if (hours < 8) return FormatTwoParts(hours, 'h', minutes % 60, 'm');
  if (hours < 48) return fmt::format("{}h", hours);
  const int64_t whole_days = hours / 24;
  if (whole_days < 8) return FormatTwoParts(whole_days, 'd', hours % 24, 'h');
  if (whole_days < 2 * 365) return fmt::format("{}d", whole_days);
  if (whole_days < 8 * 365) return FormatTwoParts(whole_days / 365, 'y', whole_days % 365, 'd');
  return fmt::format("{}y", whole_days / 365);
}

std::string AgeSince(std::string_view timestamp, WallTime now) {
  const std::optional<WallTime> time = ReadDateTime(timestamp);
  if (!time) return "<unknown>";
  return FormatAge(floor<seconds>(now - *time));
}

}  // namespace berth::api
