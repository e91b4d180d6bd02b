#include "api/names.h"

#include <gtest/gtest.h>

#include <string>

namespace berth::api {
namespace {

std::string MessageOf(const base::Status& status) { return std::string(base::Message(status)); }

TEST(NamesTest, Dns1123Label) {
  for (const std::string& name :
       {std::string("a"), std::string("my-name"), std::string("1a"), std::string(63, 'a')}) {
    EXPECT_TRUE(CheckDns1123Label(name).ok()) << name;
  }
  for (const std::string_view name : {"", "-a", "a-", "A", "a.b", "a_b", "a b", "\xc3\xa4"}) {
    EXPECT_EQ(MessageOf(CheckDns1123Label(name)),
              "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or "
              "'-', and must "
              "start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex "
              "used for "
              "validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')")
        << name;
  }
  EXPECT_EQ(MessageOf(CheckDns1123Label(std::string(64, 'a'))),
            "must be no more than 63 characters");
}

TEST(NamesTest, Dns1123Subdomain) {
  EXPECT_TRUE(CheckDns1123Subdomain("a.b-c.d").ok());
  EXPECT_TRUE(CheckDns1123Subdomain(std::string(253, 'a')).ok());
  for (const std::string_view name : {"", ".", "a.", ".a", "a..b", "a.-b", "a.B", "../etc"}) {
    EXPECT_FALSE(CheckDns1123Subdomain(name).ok()) << name;
  }
  EXPECT_EQ(MessageOf(CheckDns1123Subdomain(std::string(254, 'a'))),
            "must be no more than 253 characters");
  EXPECT_EQ(MessageOf(CheckDns1123Subdomain("A")),
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, "
            "'-' or '.', and "
            "must start and end with an alphanumeric character (e.g. 'example.com', regex used for "
            "validation is "
            "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')");
}

TEST(NamesTest, GenerateNamePrefixesMayEndWithADash) {
  EXPECT_TRUE(CheckNamePrefix("web-").ok());
  EXPECT_TRUE(CheckNamePrefix("web").ok());
  EXPECT_FALSE(CheckNamePrefix("-").ok());
  EXPECT_FALSE(CheckNamePrefix("web_").ok());
}

TEST(NamesTest, QualifiedNames) {
  for (const std::string_view name :
       {"a", "My.Name_1", "example.com/name", "kubernetes.io/pv-protection"}) {
    EXPECT_TRUE(CheckQualifiedName(name).ok()) << name;
  }
  EXPECT_EQ(MessageOf(CheckQualifiedName("")), "name part must be non-empty");
  EXPECT_EQ(MessageOf(CheckQualifiedName("/a")), "prefix part must be non-empty");
  EXPECT_EQ(MessageOf(CheckQualifiedName("a/")), "name part must be non-empty");
  EXPECT_EQ(MessageOf(CheckQualifiedName(std::string(64, 'a'))),
            "name part must be no more than 63 characters");
  EXPECT_TRUE(MessageOf(CheckQualifiedName("A_/b"))
                  .starts_with("prefix part a lowercase RFC 1123 subdomain"));
  EXPECT_TRUE(
      MessageOf(CheckQualifiedName("a/b/c")).starts_with("a qualified name must consist of"));
  EXPECT_TRUE(MessageOf(CheckQualifiedName("_a")).starts_with("name part must consist of"));
}

TEST(NamesTest, LabelValuesConfigKeysAndPathSegments) {
  EXPECT_TRUE(CheckLabelValue("").ok());
  EXPECT_TRUE(CheckLabelValue("a_B.c-1").ok());
  EXPECT_FALSE(CheckLabelValue("a/b").ok());
  EXPECT_FALSE(CheckLabelValue("-a").ok());
  EXPECT_FALSE(CheckLabelValue(std::string(64, 'a')).ok());
  EXPECT_TRUE(CheckConfigKey("key.name").ok());
  EXPECT_EQ(MessageOf(CheckConfigKey("..")), "must not be '..'");
  EXPECT_EQ(MessageOf(CheckConfigKey("..data")), "must not start with '..'");
  EXPECT_FALSE(CheckConfigKey("a/b").ok());
  EXPECT_FALSE(CheckConfigKey("").ok());
  EXPECT_TRUE(CheckPathSegment("a:b").ok());
  EXPECT_EQ(MessageOf(CheckPathSegment("..")), "may not be '..'");
  EXPECT_EQ(MessageOf(CheckPathSegment("a/b")), "may not contain '/'");
}

}  // namespace
}  // namespace berth::api
