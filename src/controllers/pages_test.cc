#include "controllers/pages.h"

#include <gtest/gtest.h>

namespace berth::controllers {
namespace {

using base::StatusCode;

TEST(PagesTest, EachPageIsTurnedOnce) {
  Pages pages("volumes", {}, {});
  EXPECT_TRUE(pages.TurnPage("2").ok());
  EXPECT_TRUE(pages.TurnPage("3").ok());
  EXPECT_EQ(base::Message(pages.TurnPage("2")), "the driver's pages of volumes go in a circle");
}

TEST(PagesTest, EndlessPagesEnd) {
  Pages pages("volumes", {}, {.pages = 3});
  EXPECT_TRUE(pages.TurnPage("2").ok());
  EXPECT_TRUE(pages.TurnPage("3").ok());
  EXPECT_EQ(base::Message(pages.TurnPage("4")),
            "the driver's pages of volumes do not end: 3 were read");
}

TEST(PagesTest, SlowPagesEnd) {
  Pages pages("volumes", {}, {.time = std::chrono::seconds(0)});
  EXPECT_EQ(base::Message(pages.TurnPage("2")),
            "the driver's pages of volumes take longer than 0 s");
}

TEST(PagesTest, AStopEndsThem) {
  std::stop_source stop;
  Pages pages("volumes", stop.get_token(), {});
  EXPECT_TRUE(pages.TurnPage("2").ok());
  stop.request_stop();
  EXPECT_EQ(pages.TurnPage("3").code(), StatusCode::kAborted);
}

}  // namespace
}  // namespace berth::controllers
