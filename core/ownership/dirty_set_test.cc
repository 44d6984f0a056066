#include "core/ownership/dirty_set.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace warmring {
namespace {

using Page = DirtySet::Page;

TEST(DirtySet, KeepsEachChangedKeyOnceInOrder) {
  DirtySet dirty(10);
  const std::string binary("\0k\xff", 3);
  dirty.Add("b");
  dirty.Add("a");
  dirty.Add("b");
  dirty.Add(binary);
  EXPECT_TRUE(dirty.complete());
  EXPECT_EQ(dirty.size(), 3u);
  EXPECT_TRUE(dirty.MayContain(binary));
  EXPECT_FALSE(dirty.MayContain("c"));
  EXPECT_EQ(dirty.Read(0, 2), (Page{2, {"b", "a"}}));
  EXPECT_EQ(dirty.Read(2, 2), (Page{0, {binary}}));
  EXPECT_EQ(dirty.Read(0, 3), (Page{0, {"b", "a", binary}}));
  EXPECT_EQ(dirty.Read(99, 2), (Page{0, {}}));
}

TEST(DirtySet, IsIncompleteForGoodPastItsBound) {
  DirtySet dirty(2);
  dirty.Add("a");
  dirty.Add("b");
  dirty.Add("a");
  EXPECT_TRUE(dirty.complete());
  dirty.Add("c");
  EXPECT_FALSE(dirty.complete());
  EXPECT_EQ(dirty.size(), 0u);
  // Every key may be dirty now.
  EXPECT_TRUE(dirty.MayContain("z"));
  dirty.Add("d");
  EXPECT_FALSE(dirty.complete());
  EXPECT_EQ(dirty.Read(0, 10), (Page{0, {}}));
}

TEST(DirtySet, IsIncompleteWhenItsBeginningWasMissed) {
  DirtySet dirty(2);
  dirty.MarkIncomplete();
  EXPECT_FALSE(dirty.complete());
  EXPECT_TRUE(dirty.MayContain("a"));
}

}  // namespace
}  // namespace warmring
