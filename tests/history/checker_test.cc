#include "tests/history/checker.h"

#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/history/recorder.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

// The judge of the crash tests must see each breach, say which rule it breaks and no other, and
// accuse nobody of what a lost answer, an overlap or a lost memory explains.

namespace warmring::history {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Events = std::vector<Event>;

Event Attempt(Kind kind, std::string owner, uint64_t epoch, int64_t t0, std::string value,
              std::string key = "k") {
  Event event;
  event.kind = kind;
  event.t0 = t0;
  event.t1 = t0 + 2;
  event.arc = "arc";
  event.key = std::move(key);
  event.owner = std::move(owner);
  event.epoch = epoch;
  if (!value.empty()) event.value = std::move(value);
  return event;
}
Event Write(std::string owner, uint64_t epoch, int64_t t0, std::string value,
            std::string key = "k") {
  return Attempt(Kind::kWrite, std::move(owner), epoch, t0, std::move(value), std::move(key));
}
Event Read(std::string owner, uint64_t epoch, int64_t t0, std::string value,
           std::string key = "k") {
  return Attempt(Kind::kRead, std::move(owner), epoch, t0, std::move(value), std::move(key));
}
Event With(Event event, Result result) {
  event.result = result;
  if (result == Result::kUnknown) event.t1 = kNever;
  return event;
}
Event Until(Event event, int64_t t1) {
  event.t1 = t1;
  return event;
}

Event OfOwner(Kind kind, std::string owner, uint64_t epoch, int64_t t0) {
  Event event = Attempt(kind, std::move(owner), epoch, t0, "", "");
  event.t1 = t0 + 1;
  return event;
}
Event Activate(std::string owner, uint64_t epoch, int64_t t0) {
  return OfOwner(Kind::kActivate, std::move(owner), epoch, t0);
}
Event Fence(std::string owner, uint64_t epoch, int64_t t0) {
  return OfOwner(Kind::kFence, std::move(owner), epoch, t0);
}
Event Lost(std::string owner, int64_t t0, int64_t t1) {
  Event event;
  event.kind = Kind::kLost;
  event.owner = std::move(owner);
  event.t0 = t0;
  event.t1 = t1;
  return event;
}
Event Commit(std::string owner, uint64_t epoch, uint64_t version, int64_t t0,
             bool unclean = false) {
  Event event = OfOwner(Kind::kCommit, std::move(owner), epoch, t0);
  event.version = version;
  event.unclean = unclean;
  return event;
}
Event VersionOf(uint64_t version, uint64_t term = 1) {
  Event event;
  event.kind = Kind::kVersion;
  event.version = version;
  event.term = term;
  event.text = "d" + std::to_string(version);
  return event;
}
Event Watch(std::string watcher, uint64_t version, int64_t t0, std::string digest = "") {
  Event event;
  event.kind = Kind::kWatch;
  event.t0 = t0;
  event.t1 = t0;
  event.owner = std::move(watcher);
  event.version = version;
  event.text = digest.empty() ? "d" + std::to_string(version) : std::move(digest);
  return event;
}
Event Named(Kind kind, std::string text, std::string value = "") {
  Event event;
  event.kind = kind;
  event.text = std::move(text);
  if (!value.empty()) event.value = std::move(value);
  return event;
}
Event Burn(uint64_t epoch) {
  Event event;
  event.kind = Kind::kBurn;
  event.epoch = epoch;
  return event;
}

// a owns the arc under epoch 1, gives it up at 20, and b has it under epoch 2 from 30 on.
Events HandOver() {
  return {
      VersionOf(1),
      Commit("a", 1, 1, 0),
      Activate("a", 1, 2),
      Watch("client", 1, 3),
      Write("a", 1, 5, "x"),
      Read("a", 1, 8, "x"),
      Fence("a", 1, 20),
      VersionOf(2),
      Commit("b", 2, 2, 25),
      Activate("b", 2, 27),
      Watch("client", 2, 28),
      Read("b", 2, 30, "x"),
      Write("b", 2, 40, "y"),
      Read("b", 2, 50, "y"),
      Named(Kind::kSubmit, "add-b"),
      Named(Kind::kOutcome, "add-b", "Succeeded"),
      Named(Kind::kAudit, "1"),
      Named(Kind::kRecord, "1"),
      Burn(9),
      Named(Kind::kEnd, ""),
  };
}

Events Plus(Events events, const Events& more) {
  events.insert(events.end(), more.begin(), more.end());
  return events;
}
Events Without(Events events, const Event& event) {
  const size_t before = events.size();
  std::erase(events, event);
  EXPECT_EQ(events.size() + 1, before) << "no such event: " << Describe(event);
  return events;
}
Events Replace(Events events, const Event& old, const Event& by) {
  return Plus(Without(std::move(events), old), {by});
}

std::set<int> Rules(const Events& events) {
  std::set<int> rules;
  for (const Finding& finding : Check(events).findings) rules.insert(finding.rule);
  return rules;
}

struct Bad {
  std::string_view name;
  int rule;
  Events events;
};

TEST(CheckerTest, EachBreachBreaksItsOwnRule) {
  const Events good = HandOver();
  const Bad cases[] = {
      {"an owner that the store does not name", 1, Plus(good, {Read("c", 2, 60, "y")})},
      {"two owners under one epoch in the store", 1, Plus(good, {Commit("c", 2, 2, 25)})},
      {"another owner activates", 1, Plus(good, {Activate("c", 2, 60)})},
      // Before the fence came to it, and with another key than what shows the use.
      {"late acknowledgement", 2,
       Plus(Without(good, Fence("a", 1, 20)), {Write("a", 1, 33, "z", "j")})},
      {"late acknowledgement, the use seen by a read only", 2,
       Plus(Without(Without(Without(good, Fence("a", 1, 20)), Write("b", 2, 40, "y")),
                    Read("b", 2, 50, "y")),
            {Write("a", 1, 33, "z")})},
      {"acknowledged after its fence", 3, Plus(good, {Write("a", 1, 22, "z", "j")})},
      {"acknowledged after it refused somebody", 3,
       Plus(Without(good, Fence("a", 1, 20)),
            {With(Write("a", 1, 20, "q", "i"), Result::kFenced), Write("a", 1, 23, "z", "j")})},
      // Nothing but the key's own writes shows that the epoch is in use.
      {"a key goes back in epoch",
       4,
       {Commit("a", 1, 1, 0), Commit("b", 2, 2, 1), Write("b", 2, 5, "y"), Write("a", 1, 10, "z")}},
      {"an epoch that nobody committed", 5, Plus(good, {Activate("c", 3, 60)})},
      {"acknowledged before the commit", 5,
       Replace(good, Commit("b", 2, 2, 25), Commit("b", 2, 2, 35))},
      {"a version is missing", 6, Plus(good, {VersionOf(4)})},
      {"a version twice", 6, Plus(good, {VersionOf(2)})},
      {"the term goes back", 6, Replace(good, VersionOf(1), VersionOf(1, 2))},
      {"a watcher goes back", 7, Plus(good, {Watch("client", 1, 70)})},
      {"a watcher sees a version twice", 7, Plus(good, {Watch("client", 2, 70)})},
      {"another content", 7, Plus(good, {Watch("other", 2, 70, "d7")})},
      {"a version from nowhere", 7, Plus(good, {Watch("other", 3, 70)})},
      {"an acknowledged write is gone", 8,
       Replace(good, Read("b", 2, 30, "x"), Read("b", 2, 30, ""))},
      {"an older value comes back", 8,
       Plus(good, {Write("a", 1, 10, "x2"), Read("a", 1, 13, "x2")})},
      {"a delete is undone", 8, Plus(good, {Write("a", 1, 10, "")})},
      {"two outcomes", 9, Plus(good, {Named(Kind::kOutcome, "add-b", "Aborted")})},
      {"no outcome", 9, Plus(good, {Named(Kind::kSubmit, "add-c")})},
      {"a burned epoch is committed", 10, Plus(good, {Burn(2)})},
      {"a burned epoch is activated", 10, Plus(good, {Activate("b", 9, 60)})},
      {"an audit line without a record", 11, Plus(good, {Named(Kind::kAudit, "2")})},
      {"a record without an audit line", 11, Plus(good, {Named(Kind::kRecord, "2")})},
      {"an audit line twice", 11, Plus(good, {Named(Kind::kAudit, "1")})},
      {"a stale read inside an epoch", 12,
       Plus(good, {Write("b", 2, 60, "z"), Read("b", 2, 63, "y")})},
      {"an acknowledged write is gone inside an epoch", 12, Plus(good, {Read("b", 2, 60, "")})},
      {"two readers disagree about the order", 12,
       Plus(good, {Until(Write("b", 2, 60, "p"), 70), Until(Write("b", 2, 61, "q"), 69),
                   Read("b", 2, 80, "p"), Read("b", 2, 90, "q")})},
      {"a value that nobody wrote", 12, Plus(good, {Read("b", 2, 60, "ghost")})},
      {"a value that was refused", 12,
       Plus(good, {With(Write("b", 2, 60, "z"), Result::kRefused), Read("b", 2, 63, "z")})},
      {"a value before it was written", 12,
       Plus(good, {Read("b", 2, 60, "z"), Write("b", 2, 63, "z")})},
  };
  std::set<int> tried;
  for (const Bad& bad : cases) {
    EXPECT_EQ(Rules(bad.events), std::set<int>{bad.rule}) << bad.name << "\n"
                                                          << Check(bad.events).Describe();
    tried.insert(bad.rule);
  }
  EXPECT_EQ(tried.size(), 12U);
}

TEST(CheckerTest, AccusesNobodyOfWhatMayHaveBeen) {
  const Events good = HandOver();
  const std::pair<std::string_view, Events> cases[] = {
      {"a hand-over", good},
      {"nothing", {}},
      {"a write that is under way while the epoch ends",
       Plus(good, {Until(Write("a", 1, 19, "z", "j"), 33)})},
      {"an answer that was lost after the fence",
       Plus(good, {With(Write("a", 1, 22, "z", "j"), Result::kUnknown)})},
      {"a lost answer that came true under the old epoch",
       Plus(Without(good, Read("b", 2, 30, "x")),
            {With(Write("a", 1, 15, "z"), Result::kUnknown), Read("b", 2, 30, "z")})},
      {"a lost answer that never came true",
       Plus(good, {With(Write("a", 1, 15, "z"), Result::kUnknown)})},
      {"a lost answer that came true much later",
       Plus(good, {With(Write("b", 2, 42, "z"), Result::kUnknown), Read("b", 2, 60, "y"),
                   Read("b", 2, 70, "z")})},
      {"a lost delete",
       Plus(good, {With(Write("b", 2, 42, ""), Result::kUnknown), Read("b", 2, 60, "")})},
      {"a delete that the former owner passed on",
       Plus(good, {With(Write("a", 1, 32, ""), Result::kUnknown), Read("b", 2, 60, "")})},
      {"what was refused after the fence",
       Plus(good, {With(Write("a", 1, 22, "z"), Result::kFenced),
                   With(Write("a", 1, 35, "w"), Result::kRefused)})},
      {"a read at the old owner while it has not heard",
       Plus(Without(good, Fence("a", 1, 20)), {Read("a", 1, 29, "x")})},
      {"an unclean commit lost the last write",
       Replace(Replace(good, Commit("b", 2, 2, 25), Commit("b", 2, 2, 25, true)),
               Read("b", 2, 30, "x"), Read("b", 2, 30, ""))},
      {"the engine of the new owner lost its memory before it began",
       Plus(Replace(good, Read("b", 2, 30, "x"), Read("b", 2, 30, "")), {Lost("b", 10, 12)})},
      {"the engine lost its memory inside the epoch",
       Plus(good, {Lost("b", 55, 60), Read("b", 2, 62, "")})},
      {"two overlapping writes, seen in one order",
       Plus(good, {Until(Write("b", 2, 60, "p"), 70), Until(Write("b", 2, 61, "q"), 69),
                   Read("b", 2, 80, "p"), Read("b", 2, 90, "p")})},
      {"a wave was given up: the same owner under a fresh epoch",
       Plus(good, {VersionOf(3), Fence("b", 2, 60), Commit("b", 4, 3, 62), Activate("b", 4, 63),
                   Read("b", 4, 65, "y"), Write("b", 4, 70, "z"), Burn(3)})},
      {"there and back",
       Plus(good, {VersionOf(3), Fence("b", 2, 60), Commit("a", 3, 3, 62), Activate("a", 3, 63),
                   Read("a", 3, 65, "y"), Write("a", 3, 70, "z")})},
      {"watchers skip versions", Plus(good, {VersionOf(3), Watch("client", 3, 70),
                                             Watch("other", 1, 71), Watch("other", 3, 72)})},
      {"a migration that has not ended, of a history that has not either",
       Plus(Without(good, Named(Kind::kEnd, "")), {Named(Kind::kSubmit, "add-c")})},
  };
  for (const auto& [name, events] : cases) {
    EXPECT_THAT(Rules(events), IsEmpty()) << name << "\n" << Check(events).Describe();
  }
}

// A loss explains what is gone, but not what was written after it, nor what comes back.
TEST(CheckerTest, ALostMemoryIsNoExcuseForMore) {
  const Events good = HandOver();
  EXPECT_EQ(Rules(Plus(good, {Lost("b", 55, 60), Write("b", 2, 62, "z"), Read("b", 2, 65, "")})),
            std::set<int>{12});
  EXPECT_EQ(Rules(Plus(good, {Lost("b", 55, 60), Read("b", 2, 62, ""), Read("b", 2, 65, "y")})),
            std::set<int>{12});
  EXPECT_EQ(
      Rules(Plus(Replace(good, Read("b", 2, 30, "x"), Read("b", 2, 30, "")), {Lost("b", 1, 2)})),
      std::set<int>{8});
}

// An override has ended: its key is under its range's epoch again, and is one register all along.
TEST(CheckerTest, AnArcThatTheStoreTakesBackIsOneRegister) {
  const Events good = Plus(HandOver(), {VersionOf(3), Commit("a", 1, 3, 60), Write("a", 1, 65, "z"),
                                        Read("a", 1, 70, "z")});
  EXPECT_THAT(Rules(good), IsEmpty()) << Check(good).Describe();
  EXPECT_EQ(Rules(Plus(good, {Read("a", 1, 75, "x")})), std::set<int>{12});
  EXPECT_EQ(Rules(Plus(good, {Write("c", 1, 75, "q")})), std::set<int>{1});
}

TEST(CheckerTest, SaysWhatItSawAndCounts) {
  const Verdict verdict = Check(Plus(HandOver(), {Write("a", 1, 22, "z", "j")}));
  EXPECT_EQ(verdict.attempts, 6U);
  EXPECT_EQ(verdict.acknowledged, 6U);
  EXPECT_EQ(verdict.registers, 3U);  // k under 1 and 2, j under 1
  EXPECT_THAT(verdict.Describe(),
              HasSubstr("R3: acknowledged after its own fence: write j=z at a of arc under 1, ok, "
                        "[22, 24] after fence at a of arc under 1, [20, 21]"));
  EXPECT_THAT(Check(HandOver()).Describe(),
              HasSubstr("5 operations (5 acknowledged, 0 unknown), 2 registers (0 undecided): no "
                        "violation"));
}

TEST(EventTest, IsTheSameAfterItWasWrittenAndRead) {
  ASSERT_OK_AND_ASSIGN(const auto dir, support::TempDir::Create("history"));
  const Events events =
      Plus(HandOver(), {With(Write("a", 1, 22, "z"), Result::kUnknown), Lost("b", 1, 2),
                        Commit("b", 2, 2, 25, true), Write("a", 1, 80, "")});
  const std::string path = dir->File("events.jsonl");
  ASSERT_OK(WriteHistory(events, path));
  ASSERT_OK_AND_ASSIGN(const Events read, ReadHistory(path));
  EXPECT_EQ(read, events);
}

TEST(EventTest, RefusesWhatItCannotRead) {
  for (const char* line : {"", "[]", "{}", R"({"ev":"dance"})", R"({"ev":"write","t0":5,"t1":3})",
                           R"({"ev":"write","res":"fine"})", R"({"ev":"write","epoch":-1})",
                           R"({"ev":"write","value":1})", R"({"ev":"read","owner":1})",
                           R"({"ev":"commit","unclean":1})", R"({"ev":"write","t0":"now"})"}) {
    EXPECT_THAT(FromJson(line), StatusIs(absl::StatusCode::kInvalidArgument)) << line;
  }
  EXPECT_THAT(ReadHistory("/nowhere/events.jsonl"), StatusIs(absl::StatusCode::kNotFound));
}

TEST(RecorderTest, CollectsFromAllThreads) {
  Recorder recorder;
  const int64_t before = Recorder::Now();
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&recorder] {
      for (int n = 0; n < 100; ++n) recorder.Add(Write("a", 1, Recorder::Now(), "v"));
    });
  }
  threads.clear();
  EXPECT_EQ(recorder.Size(), 400U);
  for (const Event& event : recorder.Events()) EXPECT_GE(event.t0, before);
}

}  // namespace
}  // namespace warmring::history
