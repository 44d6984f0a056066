#include "tests/history/register_search.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <random>

#include "gtest/gtest.h"

// The search must find an order where there is one, and must not find one where there is none: it
// is compared with all orders of small histories.

namespace warmring::history {
namespace {

using Kind = RegisterOp::Kind;
constexpr int64_t kOpen = INT64_MAX;
constexpr size_t kSteps = 1'000'000;

RegisterOp Write(int64_t t0, int64_t t1, uint32_t value) { return {Kind::kWrite, t0, t1, value}; }
RegisterOp Read(int64_t t0, int64_t t1, uint32_t value) { return {Kind::kRead, t0, t1, value}; }
RegisterOp Clear(int64_t t0, int64_t t1) { return {Kind::kMayClear, t0, t1, kNothing}; }

TEST(RegisterSearchTest, OneAfterTheOther) {
  EXPECT_EQ(CheckRegister({}, kSteps), Linearizable::kYes);
  EXPECT_EQ(CheckRegister({Write(1, 2, 1), Read(3, 4, 1)}, kSteps), Linearizable::kYes);
  EXPECT_EQ(CheckRegister({Write(1, 2, 1), Write(3, 4, 2), Read(5, 6, 1)}, kSteps),
            Linearizable::kNo);
  EXPECT_EQ(CheckRegister({Write(1, 2, 1), Read(3, 4, kNothing)}, kSteps), Linearizable::kNo);
}

TEST(RegisterSearchTest, OverlappingOnesMayComeInAnyOrder) {
  EXPECT_EQ(CheckRegister({Write(1, 10, 1), Write(2, 9, 2), Read(11, 12, 1)}, kSteps),
            Linearizable::kYes);
  // But the same for everybody.
  EXPECT_EQ(
      CheckRegister({Write(1, 10, 1), Write(2, 9, 2), Read(11, 12, 1), Read(13, 14, 2)}, kSteps),
      Linearizable::kNo);
}

TEST(RegisterSearchTest, ALostAnswerMayTakeEffectLateOrNever) {
  EXPECT_EQ(
      CheckRegister({Write(1, kOpen, 1), Write(2, 3, 2), Read(4, 5, 2), Read(6, 7, 1)}, kSteps),
      Linearizable::kYes);
  EXPECT_EQ(CheckRegister({Write(1, kOpen, 1), Write(2, 3, 2), Read(4, 5, 2)}, kSteps),
            Linearizable::kYes);
  // Once only: 2 was over when 1 was seen, so 1 came after it.
  EXPECT_EQ(
      CheckRegister({Write(1, kOpen, 1), Write(2, 3, 2), Read(4, 5, 1), Read(6, 7, 2)}, kSteps),
      Linearizable::kNo);
}

TEST(RegisterSearchTest, WhatItHeldInTheBeginningIsAnything) {
  EXPECT_EQ(CheckRegister({Read(1, 2, 7), Read(3, 4, 7), Write(5, 6, 1)}, kSteps),
            Linearizable::kYes);
  EXPECT_EQ(CheckRegister({Read(1, 2, 7), Read(3, 4, 8)}, kSteps), Linearizable::kNo);
  EXPECT_EQ(CheckRegister({Read(1, 2, 1), Write(3, 4, 1)}, kSteps), Linearizable::kNo);
}

TEST(RegisterSearchTest, ALossIsNothingOrAllIsAsBefore) {
  EXPECT_EQ(CheckRegister({Write(1, 2, 1), Clear(3, 4), Read(5, 6, kNothing)}, kSteps),
            Linearizable::kYes);
  EXPECT_EQ(CheckRegister({Write(1, 2, 1), Clear(3, 4), Read(5, 6, 1)}, kSteps),
            Linearizable::kYes);
  EXPECT_EQ(
      CheckRegister({Write(1, 2, 1), Clear(3, 4), Read(5, 6, kNothing), Read(7, 8, 1)}, kSteps),
      Linearizable::kNo);
  EXPECT_EQ(CheckRegister({Clear(1, 2), Write(3, 4, 1), Read(5, 6, kNothing)}, kSteps),
            Linearizable::kNo);
}

TEST(RegisterSearchTest, ManyLostDeletesAreNoWork) {
  std::vector<RegisterOp> ops;
  for (int i = 0; i < 40; ++i) ops.push_back(Write(i, kOpen, kNothing));
  for (uint32_t i = 1; i <= 40; ++i) {
    ops.push_back(Write(100 + 10 * i, 101 + 10 * i, i));
    ops.push_back(Read(102 + 10 * i, 103 + 10 * i, kNothing));
  }
  EXPECT_EQ(CheckRegister(ops, kSteps), Linearizable::kYes);
  // One more than there are deletes.
  ops.push_back(Write(900, 901, 41));
  ops.push_back(Read(902, 903, kNothing));
  EXPECT_EQ(CheckRegister(ops, kSteps), Linearizable::kNo);
}

TEST(RegisterSearchTest, GivesUpInsteadOfSearchingForEver) {
  std::vector<RegisterOp> ops;
  for (uint32_t i = 1; i <= 20; ++i) ops.push_back(Write(1, 100, i));
  for (uint32_t i = 1; i <= 20; ++i) ops.push_back(Read(1, 100, i));
  ops.push_back(Read(200, 201, kNothing));
  EXPECT_EQ(CheckRegister(ops, 1000), Linearizable::kUndecided);
}

// Every order, the simple way.
bool AnyOrder(const std::vector<RegisterOp>& ops) {
  std::vector<size_t> order(ops.size());
  std::iota(order.begin(), order.end(), 0);
  do {
    bool fits = true;
    for (size_t i = 0; fits && i < order.size(); ++i) {
      for (size_t j = i + 1; fits && j < order.size(); ++j) {
        fits = !(ops[order[j]].t1 < ops[order[i]].t0);
      }
    }
    std::optional<uint32_t> state;
    for (size_t i = 0; fits && i < order.size(); ++i) {
      const RegisterOp& op = ops[order[i]];
      if (op.kind == Kind::kWrite) {
        state = op.value;
      } else if (state.has_value()) {
        fits = *state == op.value;
      } else {
        fits = op.value == kNothing;  // the values of this test are written ones
        state = op.value;
      }
    }
    if (fits) return true;
  } while (std::next_permutation(order.begin(), order.end()));
  return false;
}

TEST(RegisterSearchTest, AgreesWithAllOrdersOfSmallHistories) {
  std::mt19937_64 random(4);
  int linearizable = 0;
  for (int i = 0; i < 3000; ++i) {
    std::vector<RegisterOp> ops;
    for (uint32_t n = 0; n < 6; ++n) {
      const auto t0 = static_cast<int64_t>(random() % 12);
      const auto t1 = t0 + 1 + static_cast<int64_t>(random() % 6);
      if (n < 3) {
        ops.push_back(Write(t0, t1, n + 1));
      } else {
        ops.push_back(Read(t0, t1, static_cast<uint32_t>(random() % 4)));
      }
    }
    const bool expected = AnyOrder(ops);
    linearizable += expected ? 1 : 0;
    ASSERT_EQ(CheckRegister(ops, kSteps), expected ? Linearizable::kYes : Linearizable::kNo)
        << "history " << i;
  }
  // Both answers were tried.
  EXPECT_GT(linearizable, 300);
  EXPECT_LT(linearizable, 2700);
}

}  // namespace
}  // namespace warmring::history
