#include "api/cel/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::api::cel {
namespace {

using base::StatusCode;

// name, replicas, ratio, on, when, wait, waits (a list); tags (a set), ports (a map list by name),
// labels (a map), namespace and a-b (to be escaped), any, metadata.
const Schema& TestSchema() {
  static const Schema* const schema = [] {
    static SchemaArena arena;
    const auto scalar = [](FieldType type, std::string format = "") {
      Schema* made = arena.New();
      made->type = type;
      made->format = std::move(format);
      return made;
    };
    Schema* root = arena.New();
    root->type = FieldType::kObject;
    const auto add = [](Schema* object, std::string name, const Schema* type) {
      Field field;
      field.name = std::move(name);
      field.type = type;
      object->fields.push_back(std::move(field));
    };
    const Schema* text = scalar(FieldType::kString);
    add(root, "name", text);
    add(root, "namespace", text);
    add(root, "a-b", text);
    add(root, "replicas", scalar(FieldType::kInteger));
    add(root, "ratio", scalar(FieldType::kNumber));
    add(root, "on", scalar(FieldType::kBoolean));
    add(root, "when", scalar(FieldType::kString, "date-time"));
    add(root, "wait", scalar(FieldType::kString, "duration"));
    Schema* waits = scalar(FieldType::kList);
    waits->element = scalar(FieldType::kString, "duration");
    add(root, "waits", waits);
    add(root, "any", scalar(FieldType::kIntOrString));
    Schema* tags = scalar(FieldType::kList);
    tags->element = text;
    tags->list_type = ListType::kSet;
    add(root, "tags", tags);
    Schema* port = scalar(FieldType::kObject);
    add(port, "name", text);
    add(port, "port", scalar(FieldType::kInteger));
    Schema* ports = scalar(FieldType::kList);
    ports->element = port;
    add(root, "ports", ports);
    Schema* labels = scalar(FieldType::kMap);
    labels->element = text;
    add(root, "labels", labels);
    Schema* metadata = scalar(FieldType::kObject);
    metadata->name = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
    add(metadata, "name", text);
    add(metadata, "labels", labels);
    add(root, "metadata", metadata);
    return root;
  }();
  return *schema;
}

const Json kSelf = Json::parse(R"({
  "name": "héllo", "namespace": "ns", "a-b": "dash", "replicas": 3, "ratio": 2, "on": true,
  "when": "2026-01-01T12:00:00Z", "wait": "1h30m", "waits": ["1m", "30s"], "any": "80%",
  "tags": ["a", "b"], "ports": [{"name": "http", "port": 80}, {"name": "https", "port": 443}],
  "labels": {"x": "1", "y": "2"}, "metadata": {"name": "m"}})");
const Json kOldSelf = Json::parse(R"({
  "name": "old", "replicas": 1, "tags": ["b", "a"], "ports": [], "waits": []})");

// The result as text: "true", "false", or the error's message.
std::string Eval(std::string_view rule, int64_t units = 100000) {
  auto program = Program::Compile(rule, &TestSchema(), Kind::kBool);
  if (!program.ok()) return "COMPILE " + std::string(base::Message(program.status()));
  Budget budget(units);
  const auto value = program->Run(kSelf, &kOldSelf, &TestSchema(), budget);
  if (!value.ok()) return std::string(base::Message(value.status()));
  if (!value->is(Kind::kBool)) return std::string(KindName(value->kind()));
  return value->bool_value() ? "true" : "false";
}

TEST(CelTest, EvaluatesRules) {
  for (const std::string_view rule :
       {// literals and operators
        "true", "!false", "1 + 2 * 3 == 7", "(1 + 2) * 3 == 9", "7 / 2 == 3", "-7 / 2 == -3",
        "7 % 3 == 1", "1.5 + 1.5 == 3.0", "0x10 == 16", "1e3 == 1000.0", "-(-3) == 3",
        "'a' + \"b\" == 'ab'", "'''it's''' == \"it's\"", "r'\\d' == '\\\\d'", "'\\u00e9' == 'é'",
        "'\\x41\\101' == 'AA'", "null == null", "'a' < 'b'", "!(1 > 2)", "1 < 1.5", "2 == 2.0",
        "[1, 2] + [3] == [1, 2, 3]", "[1, 2] != [2, 1]", "{'a': 1, 'b': 2} == {'b': 2, 'a': 1}",
        "1 in [1, 2]", "!(3 in [1, 2])", "'x' in self.labels", "-9223372036854775808 < 0",
        "true ? true : false", "1 == 1 && 2 == 2 || false", "// a comment\ntrue",
        // fields
        "self.replicas == 3", "self.ratio == 2.0", "self.on", "self.name == 'héllo'",
        "self.__namespace__ == 'ns'", "self.a__dash__b == 'dash'", "self.labels.x == '1'",
        "self.labels['y'] == '2'", "self.ports[1].port == 443", "has(self.name)",
        "has(self.labels.x)", "!has(self.labels.z)", "!has(oldSelf.on)", "self.any == '80%'",
        "self.metadata.name == 'm'",
        // lists of a set type in any order
        "self.tags == oldSelf.tags", "self.tags == ['b', 'a']", "self.ports != oldSelf.ports",
        // errors are outweighed by what decides
        "true || self.labels.nope == '1'", "self.labels.nope == '1' || true",
        "!(false && self.labels.nope == '1')", "!(self.labels.nope == '1' && false)",
        // macros
        "self.ports.all(p, p.port > 0)", "self.ports.exists(p, p.name == 'http')",
        "self.ports.exists_one(p, p.port == 80)", "!self.ports.existsOne(p, p.port > 0)",
        "self.ports.map(p, p.port) == [80, 443]",
        "self.ports.map(p, p.port > 100, p.name) == ['https']",
        "self.ports.filter(p, p.port < 100).size() == 1", "self.labels.all(k, k in ['x', 'y'])",
        "[[1], [2, 3]].exists(x, x.exists(y, y == size(x) + 1))", "[].all(x, false)",
        "[1, 2].exists(x, x / (x - 1) == 2)",
        // functions
        "size(self.name) == 5", "self.name.size() == 5", "self.tags.size() == 2",
        "self.name.matches('^h.llo$')", "'aXb'.matches('X')", "self.name.startsWith('h')",
        "self.name.endsWith('o')", "self.name.contains('ll')", "'Ab'.lowerAscii() == 'ab'",
        "'Ab'.upperAscii() == 'AB'", "' a '.trim() == 'a'", "'a.b'.split('.') == ['a', 'b']",
        "['a', 'b'].join('-') == 'a-b'", "'abab'.replace('a', 'x') == 'xbxb'",
        "self.name.substring(1, 3) == 'él'", "'abc'.substring(1) == 'bc'",
        "'abc'.indexOf('c') == 2", "[1, 2, 1].lastIndexOf(1) == 2", "[1, 2].isSorted()",
        "[3, 1].min() == 1", "[3, 1].max() == 3", "[1, 2].sum() == 3",
        "'a1b22'.findAll('[0-9]+') == ['1', '22']", "'a1'.find('[0-9]') == '1'",
        "sets.contains([1, 2], [1])", "sets.intersects([1, 2], [2, 3])",
        "sets.equivalent([1, 2], [2, 1, 1])", "int('12') == 12", "string(12) == '12'",
        "double('1.5') == 1.5", "bool('true')", "quantity('1Gi').isGreaterThan(quantity('1G'))",
        "isQuantity('10M') && !isQuantity('x')", "quantity('1k').compareTo(quantity('1000')) == 0",
        // times
        "self.when == timestamp('2026-01-01T13:00:00+01:00')", "self.wait == duration('90m')",
        "self.when + self.wait > self.when",
        "self.when - timestamp('2026-01-01T11:59:00Z') == "
        "duration('1m')",
        "self.wait.getMinutes() == 90", "int(timestamp('1970-01-01T00:00:01.5Z')) == 1",
        "int(timestamp('1969-12-31T23:59:59.5Z')) == -1",
        // optionals
        "self.?name.orValue('x') == 'héllo'", "!oldSelf.?on.hasValue()",
        "self.?labels[?'z'].orValue('none') == 'none'", "optional.of(1).value() == 1",
        "optional.none().orValue(2) == 2", "[1, 2][?5].orValue(0) == 0"}) {
    EXPECT_EQ(Eval(rule), "true") << rule;
  }
}

// What cel-go writes, whose texts users compare with: %g of a double, and the seconds of a duration
// without an exponent.
TEST(CelTest, WritesNumbersAndDurationsAsGoDoes) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"1e6", "1e+06"},
      {"999999.0", "999999"},
      {"1000000.5", "1.0000005e+06"},
      {"1234567.0", "1.234567e+06"},
      {"123456.0", "123456"},
      {"1e21", "1e+21"},
      {"1e100", "1e+100"},
      {"0.0001", "0.0001"},
      {"0.00001", "1e-05"},
      {"0.00012345", "0.00012345"},
      {"0.1 + 0.2", "0.30000000000000004"},
      {"1.0", "1"},
      {"-0.5", "-0.5"},
      {"0.0", "0"},
      {"1.0 / 0.0", "+Inf"},
      {"-1.0 / 0.0", "-Inf"},
      {"0.0 / 0.0", "NaN"},
      {"duration('1h30m')", "5400s"},
      {"duration('1.5s')", "1.5s"},
      {"duration('100us')", "0.0001s"},
      {"duration('99us')", "0.000099s"},
      {"duration('1ns')", "0.000000001s"},
      {"duration('-1ns')", "-0.000000001s"},
      {"duration('-1m')", "-60s"},
      {"duration('0')", "0s"},
      {"duration('1000000s')", "1000000s"},
      {"duration('1000000h')", "3600000000s"},
      {"duration('1s') + duration('1ns')", "1.000000001s"},
  };
  for (const auto& [value, text] : cases) {
    EXPECT_EQ(Eval(fmt::format("string({}) == '{}'", value, text)), "true") << value;
  }
}

TEST(CelTest, AddsTheItemsOfAList) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"[1, 2].sum() == 3", "true"},
      {"[1.5, 2.0].sum() == 3.5", "true"},
      {"[].sum() == 0", "true"},
      {"[duration('1h'), duration('30m')].sum() == self.wait", "true"},
      {"[duration('1s'), duration('-1s')].sum() == duration('0')", "true"},
      {"[duration('1s')].sum() > duration('999ms')", "true"},
      {"self.waits.sum() == duration('90s')", "true"},
      {"oldSelf.waits.sum() == duration('0')", "true"},
      {"string(oldSelf.waits.sum()) == '0s'", "true"},
      {"[duration('2000000h'), duration('2000000h')].sum() > duration('0')", "integer overflow"},
      {"[duration('1s'), 1].sum() == 1", "no such overload"},
      {"[1, duration('1s')].sum() == 1", "no such overload"},
      {"int(duration('1us')) == 1000", "true"},
  };
  for (const auto& [rule, result] : cases) EXPECT_EQ(Eval(rule), result) << rule;
}

// The rules of the snapshot CRDs, in the states that they tell apart.
TEST(CelTest, EvaluatesRulesOfSnapshots) {
  struct Case {
    std::string_view rule;
    std::string_view self;
    std::string_view old_self;
    bool holds;
  } cases[] = {
      {"self == oldSelf", R"("a")", R"("a")", true},
      {"self == oldSelf", R"("a")", R"("b")", false},
      {"self == oldSelf", R"({"a":[1,{"b":2}]})", R"({"a":[1,{"b":2}]})", true},
      {"self == oldSelf", R"({"a":[1,{"b":2}]})", R"({"a":[1,{"b":3}]})", false},
      {"!has(oldSelf.x) || has(self.x)", R"({})", R"({})", true},
      {"!has(oldSelf.x) || has(self.x)", R"({"x":1})", R"({})", true},
      {"!has(oldSelf.x) || has(self.x)", R"({})", R"({"x":1})", false},
      {"(has(self.a) && !has(self.b)) || (!has(self.a) && has(self.b))", R"({"a":1})", R"({})",
       true},
      {"(has(self.a) && !has(self.b)) || (!has(self.a) && has(self.b))", R"({"a":1,"b":1})",
       R"({})", false},
      {"has(self.name) && has(self.__namespace__)", R"({"name":"n","namespace":"s"})", "{}", true},
      {"has(self.name) && has(self.__namespace__)", R"({"name":"n"})", "{}", false},
      {"!has(oldSelf.uid) || (has(self.uid) && self.uid == oldSelf.uid)", R"({"uid":"1"})",
       R"({"uid":"2"})", false},
      {"self.size() > 0", R"("")", R"("")", false}};
  for (const Case& one : cases) {
    auto program = Program::Compile(one.rule, nullptr, Kind::kBool);
    ASSERT_TRUE(program.ok()) << one.rule << base::Message(program.status());
    const Json self = Json::parse(one.self);
    const Json old_self = Json::parse(one.old_self);
    Budget budget(1000);
    const auto value = program->Run(self, &old_self, nullptr, budget);
    ASSERT_TRUE(value.ok()) << one.rule << base::Message(value.status());
    EXPECT_EQ(value->bool_value(), one.holds) << one.rule << one.self << one.old_self;
  }
}

TEST(CelTest, RefusesWhatItCannotUnderstand) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"", "1:1: Syntax error: mismatched input '<EOF>'"},
      {"self.", "1:6: Syntax error: mismatched input '<EOF>'"},
      {"self.name == ", "Syntax error"},
      {"self.name = 'a'", "token recognition error"},
      {"'abc", "the string does not end"},
      {"'\\q'", "bad escape"},
      {"(true", "mismatched input '<EOF>'"},
      {"true true", "mismatched input"},
      {"nope", "undeclared reference to 'nope'"},
      {"nope.x.y", "undeclared reference to 'nope'"},
      {"self.nope == 1", "1:5: undefined field 'nope'"},
      {"true &&\n  self.nope", "2:7: undefined field 'nope'"},
      {"has(self.nope)", "undefined field 'nope'"},
      {"self.metadata.labels.x == 'a'", "undefined field 'labels'"},
      {"self.ports.all(p, p.nope)", "undefined field 'nope'"},
      {"self.name.x", "does not support field selection"},
      {"self.replicas == 'a'", "no matching overload for '_==_' applied to '(int, string)'"},
      {"self.replicas + 1.5 > 1", "no matching overload for '_+_'"},
      {"self.name < 1", "no matching overload for '_<_'"},
      {"self.replicas", "expected type 'bool' but found 'int'"},
      {"self.name && true", "expected type 'bool' but found 'string'"},
      {"self.replicas.all(x, true)", "cannot be range of a comprehension"},
      {"self.ports.all(p.x, true)", "Syntax error"},
      {"self.ports.all(1, true)", "argument must be a simple name"},
      {"self.ports.all(i, p, true)", "undeclared reference to 'p'"},
      {"self.ports.all(i, true, true)", "is not supported"},
      {"p > 1 && self.ports.all(p, true)", "undeclared reference to 'p'"},
      {"has(self)", "invalid argument to has()"},
      {"url('http://x').getHost() == 'x'", "undeclared reference to 'url'"},
      {"type(self.name) == string", "undeclared reference to 'type'"},
      {"1u == 1u", "unsigned integers are not supported"},
      {"b'a' == b'a'", "bytes are not supported"},
      {"size() == 1", "no matching overload for 'size'"},
      {"self.name.matches('[')", "error parsing regexp"},
      {"if == 1", "reserved identifier: if"},
      {"99999999999999999999 > 1", "invalid int literal"}};
  for (const auto& [rule, message] : cases) {
    EXPECT_THAT(Eval(rule), testing::AllOf(testing::StartsWith("COMPILE ERROR: <input>:"),
                                           testing::HasSubstr(message)))
        << rule;
  }
}

TEST(CelTest, FailsWithTheWordsOfCel) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"self.labels.nope == '1'", "no such key: nope"},
      {"oldSelf.on", "no such key: on"},
      {"self.ports[2].port == 1", "index out of bounds: 2"},
      {"1 / (self.replicas - 3) == 1", "division by zero"},
      {"1 % (self.replicas - 3) == 1", "modulus by zero"},
      {"9223372036854775807 + self.replicas > 0", "integer overflow"},
      {"-9223372036854775808 / (2 - self.replicas) > 0", "integer overflow"},
      {"self.any > 5", "no such overload"},
      {"int('x') == 1", "type conversion error from 'string' to 'int'"},
      {"[].max() == 1", "max called on empty list"},
      {"'abc'.substring(4) == ''", "index out of range: 4"},
      {"optional.none().value() == 1", "optional.none() dereference"}};
  for (const auto& [rule, message] : cases) EXPECT_EQ(Eval(rule), message) << rule;
}

TEST(CelTest, CostsAreBounded) {
  const std::string_view limit = "operation cancelled: actual cost limit exceeded";
  EXPECT_EQ(Eval("[1, 2, 3].all(x, [1, 2, 3].all(y, [1, 2, 3].all(z, true)))", 20), limit);
  EXPECT_EQ(Eval("[1, 2, 3].all(x, [1, 2, 3].all(y, [1, 2, 3].all(z, true)))", 1000), "true");
  // A budget that is used up is no error that || can outweigh.
  EXPECT_EQ(Eval("[1, 2, 3].all(x, [1, 2].all(y, true)) || true", 12), limit);

  Json many = {{"tags", Json::array()}};
  for (int i = 0; i < 20000; ++i) many["tags"].push_back(std::to_string(i));
  Json reversed = many;
  std::reverse(reversed["tags"].begin(), reversed["tags"].end());
  const auto same = Program::Compile("self.tags == oldSelf.tags", &TestSchema(), Kind::kBool);
  Budget budget(1000000);
  const auto value = same->Run(many, &reversed, &TestSchema(), budget);
  EXPECT_EQ(value.status().code(), StatusCode::kResourceExhausted);
}

TEST(CelTest, EachCopyAndSearchOfATextCosts) {
  const Json self = {{"name", std::string(100'000, 'a')}, {"namespace", std::string(50'000, 'a')}};
  for (const std::string_view rule :
       {"self.name.lowerAscii() == ''", "self.name.upperAscii() == ''", "self.name.trim() == ''",
        "self.name.substring(1) == ''", "self.name.replace('b', '') == ''",
        "self.name.startsWith('b')", "self.name.endsWith('b')", "self.name.indexOf('b') == 1",
        "self.name.lastIndexOf('b') == 1", "size(self.name) == 1", "self.name <= self.name",
        "[self.name, self.name].isSorted()", "[self.name, self.name].max() == ''",
        "['', ''].join(self.name) == ''", "int(self.name) == 1", "isQuantity(self.name)",
        "self.labels[self.name] == ''", "{'b': 1}[self.name] == 1 || true"}) {
    const auto program = Program::Compile(rule, &TestSchema(), Kind::kBool);
    ASSERT_TRUE(program.ok()) << rule << base::Message(program.status());
    Json one = self;
    one["labels"] = Json::object();
    Budget budget(1000);
    const auto value = program->Run(one, nullptr, &TestSchema(), budget);
    EXPECT_EQ(value.status().code(), StatusCode::kResourceExhausted) << rule;
  }
  // A search for a long text in a long one compares each byte with each at worst.
  for (const std::string_view rule : {"self.name.contains(self.__namespace__ + 'b')",
                                      "self.name.replace(self.__namespace__ + 'b', '') == ''",
                                      "self.name.split(self.__namespace__ + 'b') == []",
                                      "self.name.indexOf(self.__namespace__ + 'b') == 1"}) {
    const auto program = Program::Compile(rule, &TestSchema(), Kind::kBool);
    Budget budget(1'000'000);
    const auto value = program->Run(self, nullptr, &TestSchema(), budget);
    EXPECT_EQ(value.status().code(), StatusCode::kResourceExhausted) << rule;
  }
}

TEST(CelTest, ATextIsNotCopiedWhereItIsNamed) {
  const Json self = {{"name", std::string(1000, 'a')}};
  const auto program = Program::Compile("[self.name][0]", &TestSchema(), Kind::kString);
  ASSERT_TRUE(program.ok()) << base::Message(program.status());
  Budget budget(100);
  const auto value = program->Run(self, nullptr, &TestSchema(), budget);
  ASSERT_TRUE(value.ok()) << base::Message(value.status());
  EXPECT_EQ(&value->string_value(), &self["name"].get_ref<const std::string&>());
}

TEST(CelTest, TextsAreBounded) {
  EXPECT_THAT(Eval(std::string(20000, ' ') + "true"), testing::HasSubstr("16384"));
  EXPECT_THAT(Eval(std::string(2000, '(') + "true"), testing::HasSubstr("nests too deeply"));
  EXPECT_THAT(Eval(std::string(2000, '!') + "true"), testing::HasSubstr("nests too deeply"));
  std::string sum = "1";
  for (int i = 0; i < 2000; ++i) sum += "+1";
  EXPECT_THAT(Eval(sum + " == 1"), testing::HasSubstr("nests too deeply"));
  std::string either = "false";
  for (int i = 0; i < 1000; ++i) either += "||false";
  EXPECT_EQ(Eval(either + "||true"), "true");
  EXPECT_THAT(Eval("'a'.matches('" + std::string(5000, 'a') + "')"), testing::HasSubstr("4096"));
  EXPECT_THAT(Eval("'a'.matches('((((a{100}){100}){100}){100})')"),
              testing::HasSubstr("error parsing regexp"));
}

TEST(CelTest, KnowsWhetherARuleSpeaksOfTheChange) {
  EXPECT_TRUE(Program::Compile("self == oldSelf", nullptr, Kind::kBool)->uses_old_self());
  EXPECT_FALSE(Program::Compile("self.oldSelf == 1", nullptr, Kind::kBool)->uses_old_self());
}

TEST(CelTest, AnOptionalOldSelfMayBeAbsent) {
  const auto program = Program::Compile(
      "!oldSelf.hasValue() || oldSelf.value().replicas <= "
      "self.replicas",
      &TestSchema(), Kind::kBool, true);
  ASSERT_TRUE(program.ok()) << base::Message(program.status());
  const Json two = {{"replicas", 2}};
  const Json three = {{"replicas", 3}};
  const auto run = [&](const Json& self, const Json* old_self) {
    Budget budget(100);
    return program->Run(self, old_self, &TestSchema(), budget)->bool_value();
  };
  EXPECT_TRUE(run(two, nullptr));
  EXPECT_TRUE(run(three, &two));
  EXPECT_FALSE(run(two, &three));
}

}  // namespace
}  // namespace berth::api::cel
