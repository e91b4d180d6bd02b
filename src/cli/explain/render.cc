#include "cli/explain/chain.h"

namespace berth::cli::explain {
namespace {

std::string_view ToSign(Mark mark) {
  switch (mark) {
    case Mark::kOk:
      return "✓";
    case Mark::kWaiting:
      return "·";
    case Mark::kBlocked:
      break;
  }
  return "✗";
}

std::string_view ToWord(Mark mark) {
  switch (mark) {
    case Mark::kOk:
      return "ok";
    case Mark::kWaiting:
      return "waiting";
    case Mark::kBlocked:
      break;
  }
  return "blocked";
}

base::Json ToJson(const Cause& cause) {
  base::Json out = {{"id", cause.id},           {"link", NameOf(cause.link)},
                    {"waiting", cause.waiting}, {"summary", cause.summary},
                    {"proof", cause.proof},     {"owner", NameOf(cause.owner)},
                    {"step", cause.step}};
  if (!cause.command.empty()) out["command"] = cause.command;
  return out;
}

}  // namespace

std::string RenderText(const Explanation& explanation) {
  std::string out =
      fmt::format("{}{}: {}\n", explanation.subject,
                  explanation.ns.empty() ? "" : fmt::format(" in namespace '{}'", explanation.ns),
                  explanation.verdict());
  for (const Way& way : explanation.ways) {
    out += way.volume.empty() ? "\n" : fmt::format("\nvolume '{}'\n", way.volume);
    for (const Step& step : way.chain) {
      out += fmt::format("  {} {:<11} {}\n", ToSign(step.mark), NameOf(step.link), step.text);
    }
  }
  if (!explanation.causes.empty()) {
    const Cause& cause = explanation.causes.front();
    out += fmt::format("\nCause: {}\n", cause.summary);
    for (const std::string& proof : cause.proof) out += fmt::format("  - {}\n", proof);
    out += fmt::format("Owner: {}\nNext:  {}\n", NameOf(cause.owner), cause.step);
    if (!cause.command.empty()) out += fmt::format("       $ {}\n", cause.command);
    for (size_t i = 1; i < explanation.causes.size(); ++i) {
      out += fmt::format("Then:  {}\n", explanation.causes[i].summary);
    }
  }
  if (!explanation.flights.empty()) {
    out += fmt::format("\nNot seen: {}\n", explanation.flights);
  }
  return out;
}

base::Json RenderJson(const Explanation& explanation) {
  base::Json ways = base::Json::array();
  for (const Way& way : explanation.ways) {
    base::Json chain = base::Json::array();
    for (const Step& step : way.chain) {
      chain.push_back(
          {{"link", NameOf(step.link)}, {"mark", ToWord(step.mark)}, {"text", step.text}});
    }
    ways.push_back({{"volume", way.volume}, {"chain", std::move(chain)}});
  }
  base::Json others = base::Json::array();
  for (size_t i = 1; i < explanation.causes.size(); ++i) {
    others.push_back(ToJson(explanation.causes[i]));
  }
  base::Json out = {{"subject", explanation.subject},
                    {"namespace", explanation.ns},
                    {"verdict", explanation.verdict()},
                    {"ways", std::move(ways)},
                    {"cause", nullptr},
                    {"then", std::move(others)}};
  if (!explanation.causes.empty()) out["cause"] = ToJson(explanation.causes.front());
  if (!explanation.flights.empty()) out["withoutRecords"] = explanation.flights;
  return out;
}

}  // namespace berth::cli::explain
