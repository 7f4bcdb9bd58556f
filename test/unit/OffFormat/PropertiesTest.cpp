// Text of properties: canonical order, escapes, refusals.

#include "offload/OffFormat/Properties.h"

#include <gtest/gtest.h>

#include <random>

using namespace offload;

namespace {

TEST(Properties, PrintsInTheOrderOfTheKeys) {
  Properties properties;
  properties.setInt("bytes", 4096);
  properties.set("residency", "resident");
  properties.setInt("offset", 0);
  EXPECT_EQ(properties.print(), "residency=resident offset=0 bytes=4096");
  EXPECT_EQ(properties.getInt("bytes"), 4096);
  EXPECT_EQ(properties.getInt("residency"), std::nullopt);
  EXPECT_EQ(properties.getInt("view"), std::nullopt);
  properties.erase("offset");
  properties.erase("offset");
  EXPECT_EQ(properties.print(), "residency=resident bytes=4096");
}

TEST(Properties, EscapesWhatSeparates) {
  Properties properties;
  properties.set("view", "a b=c,d%e\n");
  EXPECT_EQ(properties.print(), "view=a%20b%3Dc%2Cd%25e%0A");
  auto back = Properties::parse(properties.print());
  ASSERT_TRUE(back);
  EXPECT_EQ(back->get("view"), "a b=c,d%e\n");
}

TEST(Properties, ListsKeepNamesApart) {
  Properties properties;
  properties.setList("of", {"w,1", "b", "s c"});
  EXPECT_EQ(properties.print(), "of=w%2C1,b,s%20c");
  auto back = Properties::parse("of=w%2C1,b,s%20c");
  ASSERT_TRUE(back);
  EXPECT_EQ(*back, properties);
  EXPECT_EQ(back->getList("of"), (std::vector<std::string>{"w,1", "b", "s c"}));
  EXPECT_TRUE(back->getList("after").empty());
  back->setList("of", {"w,1"});
  EXPECT_EQ(back->get("of"), "w,1");
  EXPECT_EQ(back->print(), "of=w%2C1");
}

TEST(Properties, RefusesWhatItWouldNotPrint) {
  const std::pair<const char *, const char *> cases[] = {
      {"offset", "'offset' is no key=value pair"},
      {"offset=1  bytes=2", "'' is no key=value pair"},
      {"offset=1 ", "'' is no key=value pair"},
      {"size=1", "unknown key 'size'"},
      {"offset=1 offset=2", "key 'offset' stands there twice"},
      {"view=a%2", "the value of 'view' is not escaped as it must be"},
      {"view=a%zz", "the value of 'view' is not escaped as it must be"},
      {"view=a=b", "the value of 'view' is not escaped as it must be"},
      {"view=%00", "the value of 'view' is not escaped as it must be"},
      {"view=a\tb", "the value of 'view' is not escaped as it must be"},
  };
  for (auto [text, expected] : cases) {
    std::string why;
    EXPECT_FALSE(Properties::parse(text, &why)) << text;
    EXPECT_EQ(why, expected) << text;
  }
  EXPECT_FALSE(Properties::parse("size=1"));
  EXPECT_TRUE(Properties::parse("")->empty());
}

TEST(Properties, ParseOfPrintIsTheIdentity) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    Properties properties;
    for (std::string_view key : kPropertyKeys) {
      if (random() % 2)
        continue;
      std::vector<std::string> names(1 + random() % 3);
      for (std::string &name : names)
        for (unsigned i = 1 + random() % 6; i--;)
          name += static_cast<char>(1 + random() % 255);
      properties.setList(key, names);
    }
    auto back = Properties::parse(properties.print());
    ASSERT_TRUE(back) << properties.print();
    EXPECT_EQ(*back, properties);
    EXPECT_EQ(back->print(), properties.print());
  }
}

} // namespace
