// Makes flags that write their value to a member of ProcessOptions. A function names the member:
//   Flag("kubeconfig", "", "Kubeconfig of the API", BERTH_OPTION(kubeconfig))
#pragma once

#include <chrono>
#include <string>
#include <type_traits>
#include <utility>

#include "cmd/go_flags.h"

// Makes the function that returns a member of ProcessOptions. `member` may be a member of a member,
// such as election.on.
#define BERTH_OPTION(member) [](::berth::roles::ProcessOptions& o) -> auto& { return o.member; }

namespace berth::cmd {

template <typename T>
base::StatusOr<T> ParseFlag(const std::string& value) {
  if constexpr (std::is_same_v<T, bool>) {
    return ParseGoBool(value);
  } else if constexpr (std::is_same_v<T, int>) {
    return ParseGoInt(value);
  } else if constexpr (std::is_same_v<T, double>) {
    return ParseGoFloat(value);
  } else if constexpr (std::is_same_v<T, std::chrono::milliseconds>) {
    return ParseGoDuration(value);
  } else {
    static_assert(std::is_same_v<T, std::string>);
    return value;
  }
}

template <typename T>
constexpr GoFlag::Type FlagType() {
  if constexpr (std::is_same_v<T, bool>) return GoFlag::Type::kBool;
  if constexpr (std::is_same_v<T, int>) return GoFlag::Type::kInt;
  if constexpr (std::is_same_v<T, double>) return GoFlag::Type::kFloat;
  if constexpr (std::is_same_v<T, std::chrono::milliseconds>) return GoFlag::Type::kDuration;
  return GoFlag::Type::kString;
}

// Makes a flag whose value is written to `member(options)`.
template <typename Member>
GoFlag Flag(std::string name, std::string fallback, std::string help, Member member,
            GoFlag::Use use = GoFlag::Use::kDefault) {
  using T = std::remove_cvref_t<std::invoke_result_t<Member, roles::ProcessOptions&>>;
  return {
      .name = std::move(name),
      .type = FlagType<T>(),
      .fallback = std::move(fallback),
      .help = std::move(help),
      .use = use,
      .apply = [member](roles::ProcessOptions& options, const std::string& value) -> base::Status {
        ASSIGN_OR_RETURN(member(options), ParseFlag<T>(value));
        return base::OkStatus();
      }};
}

// Makes a flag whose value is a number of at least 1, such as a number of workers.
template <typename Member>
GoFlag CountFlag(std::string name, std::string fallback, std::string help, Member member) {
  GoFlag flag = Flag(std::move(name), std::move(fallback), std::move(help), member);
  flag.apply = [member](roles::ProcessOptions& options, const std::string& value) -> base::Status {
    ASSIGN_OR_RETURN(const int count, ParseGoInt(value));
    if (count < 1) {
      return base::Error(base::StatusCode::kInvalidArgument, "must be greater than zero");
    }
    member(options) = count;
    return base::OkStatus();
  };
  return flag;
}

// Makes a flag of the Go program that has no effect here; `why` is the reason.
inline GoFlag IgnoredFlag(std::string name, GoFlag::Type type, std::string fallback,
                          std::string why) {
  return {.name = std::move(name),
          .type = type,
          .fallback = std::move(fallback),
          .help = std::move(why)};
}

}  // namespace berth::cmd
