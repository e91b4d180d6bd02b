#include "api/codecs/yaml.h"

#include <gtest/gtest.h>

namespace berth::api {
namespace {

using base::Json;
using base::StatusCode;
using nlohmann::literals::operator""_json;

Json One(std::string_view text) {
  auto documents = ParseYaml(text);
  EXPECT_TRUE(documents.ok()) << documents.status() << "\n" << text;
  if (!documents.ok() || documents->size() != 1) return "not one document";
  return std::move(documents->front());
}

TEST(YamlTest, ReadsAManifest) {
  EXPECT_EQ(
      One(R"(
apiVersion: v1
kind: Pod
metadata:
  name: web   # a comment
  labels: {app: "1", tier: two}
spec:
  containers:
  - name: a
    command: ["sh", -c, 'sleep 1']
  - name: b
    script: |
      line 1
      line 2
)"),
      R"({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "labels": {"app": "1", "tier": "two"}},
                "spec": {"containers": [{"name": "a", "command": ["sh", "-c", "sleep 1"]},
                                        {"name": "b", "script": "line 1\nline 2\n"}]}})"_json);
}

TEST(YamlTest, ScalarsAreWhatKubectlTakesThemFor) {
  EXPECT_EQ(One("a: [1, -2, 0644, 0x1f, 0o17, 1_000, 1.5, 1e3, .5, 18446744073709551615]"),
            R"({"a": [1, -2, 420, 31, 15, 1000, 1.5, 1000, 0.5, 18446744073709551615]})"_json);
  EXPECT_EQ(One("a: [true, False, yes, 'yes', \"true\", on, off]"),
            R"({"a": [true, false, true, "yes", "true", true, false]})"_json);
  EXPECT_EQ(One("a: [null, ~, '', nil, ]\nb:\n"),
            R"({"a": [null, null, "", "nil"], "b": null})"_json);
  EXPECT_EQ(
      One("a: [1.2.3, 2026-01-01, 10Gi, 0x, 1e, -, 12:30:45, .inf, 089]"),
      R"({"a": ["1.2.3", "2026-01-01", "10Gi", "0x", "1e", "-", "12:30:45", ".inf", 89]})"_json);
  EXPECT_EQ(One("a: !!str 12\nb: !!int \"7\""), R"({"a": "12", "b": 7})"_json);
}

TEST(YamlTest, KeysAreStrings) {
  EXPECT_EQ(One("1: a\ntrue: b\n\"2\": c"), R"({"1": "a", "true": "b", "2": "c"})"_json);
}

TEST(YamlTest, SplitsDocumentsAndLeavesEmptyOnesOut) {
  const auto documents = ParseYaml("---\na: 1\n---\n# nothing\n---\nb: 2\n...\n");
  ASSERT_TRUE(documents.ok());
  ASSERT_EQ(documents->size(), 2u);
  EXPECT_EQ((*documents)[1], R"({"b": 2})"_json);
  EXPECT_TRUE(ParseYaml("")->empty());
}

TEST(YamlTest, JsonIsYaml) {
  EXPECT_EQ(One(R"({"a": {"b": [1, "x", null, true]}, "u": "\u00e4\n"})"),
            R"({"a": {"b": [1, "x", null, true]}, "u": "\u00e4\n"})"_json);
}

TEST(YamlTest, AnchorsAliasesAndMergeKeys) {
  EXPECT_EQ(One("base: &b {x: 1, z: 2}\nuse: *b\nmore:\n  <<: *b\n  z: 3\nlist: [*b]"),
            R"({"base": {"x": 1, "z": 2}, "use": {"x": 1, "z": 2}, "more": {"x": 1, "z": 3},
                "list": [{"x": 1, "z": 2}]})"_json);
}

TEST(YamlTest, ErrorsNameTheLine) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"a: 1\nb: [1\n", "line"},
      {"a: 1\n\tb: 2\n", "line 2"},
      {"a: 1\nb: 2\na: 3\n", "line 3: key 'a' is already set"},
      {"a: *nothing\n", "line 1"},
      {"? [1]\n: 2\n", "line 1: a key"},
      {"a: !thing x\n", "line 1: tag"},
      {"a: 1\nb: &x [*x]\n", "line 2"},
      {"a: 'x\n", "line"}};
  for (const auto& [text, part] : cases) {
    const auto parsed = ParseYaml(text);
    EXPECT_EQ(parsed.status().code(), StatusCode::kInvalidArgument) << text;
    EXPECT_NE(base::Message(parsed.status()).find(part), std::string_view::npos)
        << text << ": " << base::ToString(parsed.status());
  }
}

TEST(YamlTest, AnUnfinishedQuoteIsRefusedEvenAtTheEndOfALine) {
  for (const std::string_view text : {"a: 'x\n", "a: \"x\n", "a: 'x\nb: 2\n",
                                      "a: !!str &b \"x\\\"\n", "\xef\xbb\xbf'x\n", "\"\\"}) {
    EXPECT_EQ(ParseYaml(text).status().code(), StatusCode::kInvalidArgument) << text;
  }
  EXPECT_EQ(One("\xef\xbb\xbf\xc3\xa4: \"\xc3\xa4\"\r\nb: !!str 'it''s'\r\nc: &x \"\\\"\"\n"),
            R"({"\u00e4": "\u00e4", "b": "it's", "c": "\""})"_json);
  EXPECT_EQ(ParseYaml(std::string_view("a\0: 1", 6)).status().code(), StatusCode::kInvalidArgument);
}

TEST(YamlTest, ABombIsRefusedNotExpanded) {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    bomb += fmt::format("a{0}: &a{0} [", i);
    for (int j = 0; j < 10; ++j) bomb += fmt::format("*a{}, ", i - 1);
    bomb += "]\n";
  }
  EXPECT_EQ(ParseYaml(bomb).status().code(), StatusCode::kResourceExhausted);
}

TEST(YamlTest, ALongTextThatIsRepeatedIsRefusedNotExpanded) {
  const std::string text(64 * 1024, 'x');
  std::string aliases;
  for (int i = 0; i < 10'000; ++i) aliases += "*a, ";
  for (const std::string& anchored : {text, "[" + text + "]", "{k: " + text + "}"}) {
    const std::string bomb = fmt::format("{{a: &a {}, b: [{}]}}", anchored, aliases);
    EXPECT_EQ(ParseYaml(bomb).status().code(), StatusCode::kResourceExhausted);
  }
  const std::string merged = fmt::format("a: &a {{k: {}}}\nb: [", text);
  std::string merges;
  for (int i = 0; i < 10'000; ++i) merges += "{<<: *a}, ";
  EXPECT_EQ(ParseYaml(merged + merges + "]").status().code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(ParseYaml(fmt::format("{{a: &a {}, b: [*a, *a]}}", text)).ok());
}

TEST(YamlTest, DepthSizeAndDocumentsAreBounded) {
  EXPECT_FALSE(ParseYaml(std::string(100000, '[')).ok());
  EXPECT_FALSE(ParseYaml(std::string(100000, '{')).ok());
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += std::string(static_cast<size_t>(i) * 2, ' ') + "a:\n";
  EXPECT_EQ(ParseYaml(deep).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ParseYaml("a: 123456789", {.max_bytes = 5}).status().code(),
            StatusCode::kResourceExhausted);
  EXPECT_EQ(ParseYaml("---\na: 1\n---\na: 1\n", {.max_documents = 1}).status().code(),
            StatusCode::kResourceExhausted);
}

TEST(YamlTest, WritesAsKubectlDoes) {
  EXPECT_EQ(
      ToYaml(
          R"({"kind": "Pod", "metadata": {"name": "web", "labels": {}}, "spec": {"l": [], "none": null,
                       "containers": [{"name": "a", "args": ["x", "1", "true", "", "a: b", "# c"]}, {"name": "b"}],
                       "text": "one\ntwo\n", "size": 5, "ok": true}})"_json),
      R"(kind: Pod
metadata:
  labels: {}
  name: web
spec:
  containers:
  - args:
    - x
    - "1"
    - "true"
    - ""
    - 'a: b'
    - '# c'
    name: a
  - name: b
  l: []
  none: null
  ok: true
  size: 5
  text: |
    one
    two
)");
}

TEST(YamlTest, WhatIsWrittenReadsBackTheSame) {
  const Json value =
      R"({"strings": ["", " lead", "trail ", "-", "- a", "-a", "a: b", "a:", ":a", "a #b", "#a", "'q'", "\"q\"",
      "yes", "null", "~", "0644", "1e3", "0x1", "[a", "{a", "&a", "*a", "!a", "%a", "@a", "`a", "|", ">", "?", "? a", "=",
      "<<", "---", "--- a", "...", "a\nb", "a\nb\n", "a\nb\n\n", "\na", "\n", " a\nb", "a \nb", "a\tb", "\ta\nb", "a\r\nb",
      "\u0000", "\u007f", "\u00e4\u20ac", "\u2028", "2026-01-01", "1_000", ",a", "back\\slash", "a\\nb", "it's"],
      "nested": [[1, [2, {}]], [], {"a": [{"b": [{"c": "x\ny"}]}]}], "true": {"": 1, "a b": 2, "a: b": 3, "1": 4, "<<": 5},
      "float": 1.5, "big": 18446744073709551615, "neg": -1})"_json;
  EXPECT_EQ(One(ToYaml(value)), value) << ToYaml(value);
}

}  // namespace
}  // namespace berth::api
