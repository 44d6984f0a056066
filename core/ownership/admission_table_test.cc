// What an owner answers, in every state that it can be in, to every request: against a table that
// is written out. owner_view_test.cc tells the stories; here nothing may be missing.

#include <array>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "core/ownership/owner_view.h"
#include "core/ownership/quarter_ring_testing.h"
#include "tests/support/status_matchers.h"

namespace warmring {
namespace {

constexpr Instant kNow{1'000'000'000'000};
constexpr uint64_t kVersion = 3;

// One line for each state of the owner that a request can meet:
//
//   what the installed map (version 3) says about the range, whose epoch is 5, and this node:
//     no-map     nothing is installed
//     owner      it owns it, nothing moves
//     donor      it owns it, a move away from it is being warmed
//     heir       it owns it, a move to it is in grace
//     recipient  another node owns it, a move to this one is being warmed
//     former     another node owns it, a move from this one is in grace
//     other      another node owns it, nothing moves
//     stranger   another node owns it, and this one is no member
//   the lease:   none; over: it ends at this very instant; waits: granted for version 4, the map is
//                behind; held
//   the floor:   0: none; 4, 5, 9
//   a write, six answers: with another history; with ours and the epochs 0, 4, 5, 6 and 2^64-1
//   a read, likewise
//   a plain command, one answer
//   a grace read, as a write
//
// Answers: A admitted, L no lease, H wrong history, N not the owner, S stale epoch, B the owner is
// behind, F fencing. Without a map there is no lease to hold.
constexpr char kTable[] = R"(
no-map    none  0  LLLLLL HBBBBB L HBBBBB
no-map    none  4  LLLLLL HBBBBB L HBBBBB
no-map    none  5  LLLLLL HBBBBB L HBBBBB
no-map    none  9  LLLLLL HBBBBB L HBBBBB
no-map    over  0  LLLLLL HBBBBB L HBBBBB
no-map    over  4  LLLLLL HBBBBB L HBBBBB
no-map    over  5  LLLLLL HBBBBB L HBBBBB
no-map    over  9  LLLLLL HBBBBB L HBBBBB
no-map    waits 0  LLLLLL HBBBBB L HBBBBB
no-map    waits 4  LLLLLL HBBBBB L HBBBBB
no-map    waits 5  LLLLLL HBBBBB L HBBBBB
no-map    waits 9  LLLLLL HBBBBB L HBBBBB
owner     none  0  LLLLLL HSSABB L HSSNBB
owner     none  4  LLLLLL HSSABB L HSSNBB
owner     none  5  LLLLLL HSSFBB L HSSNBB
owner     none  9  LLLLLL HSSFBB L HSSNBB
owner     over  0  LLLLLL HSSABB L HSSNBB
owner     over  4  LLLLLL HSSABB L HSSNBB
owner     over  5  LLLLLL HSSFBB L HSSNBB
owner     over  9  LLLLLL HSSFBB L HSSNBB
owner     waits 0  LLLLLL HSSABB L HSSNBB
owner     waits 4  LLLLLL HSSABB L HSSNBB
owner     waits 5  LLLLLL HSSFBB L HSSNBB
owner     waits 9  LLLLLL HSSFBB L HSSNBB
owner     held  0  HSSABB HSSABB A HSSNBB
owner     held  4  HSSABB HSSABB A HSSNBB
owner     held  5  HSSFBB HSSFBB F HSSNBB
owner     held  9  HSSFBB HSSFBB F HSSNBB
donor     none  0  LLLLLL HSSABB L HSSNBB
donor     none  4  LLLLLL HSSABB L HSSNBB
donor     none  5  LLLLLL HSSFBB L HSSNBB
donor     none  9  LLLLLL HSSFBB L HSSNBB
donor     over  0  LLLLLL HSSABB L HSSNBB
donor     over  4  LLLLLL HSSABB L HSSNBB
donor     over  5  LLLLLL HSSFBB L HSSNBB
donor     over  9  LLLLLL HSSFBB L HSSNBB
donor     waits 0  LLLLLL HSSABB L HSSNBB
donor     waits 4  LLLLLL HSSABB L HSSNBB
donor     waits 5  LLLLLL HSSFBB L HSSNBB
donor     waits 9  LLLLLL HSSFBB L HSSNBB
donor     held  0  HSSABB HSSABB A HSSNBB
donor     held  4  HSSABB HSSABB A HSSNBB
donor     held  5  HSSFBB HSSFBB F HSSNBB
donor     held  9  HSSFBB HSSFBB F HSSNBB
recipient none  0  LLLLLL HNNNBB L HNNNBB
recipient none  4  LLLLLL HNNNBB L HNNNBB
recipient none  5  LLLLLL HNNNBB L HNNNBB
recipient none  9  LLLLLL HNNNBB L HNNNBB
recipient over  0  LLLLLL HNNNBB L HNNNBB
recipient over  4  LLLLLL HNNNBB L HNNNBB
recipient over  5  LLLLLL HNNNBB L HNNNBB
recipient over  9  LLLLLL HNNNBB L HNNNBB
recipient waits 0  LLLLLL HNNNBB L HNNNBB
recipient waits 4  LLLLLL HNNNBB L HNNNBB
recipient waits 5  LLLLLL HNNNBB L HNNNBB
recipient waits 9  LLLLLL HNNNBB L HNNNBB
recipient held  0  HNNNBB HNNNBB N HNNNBB
recipient held  4  HNNNBB HNNNBB N HNNNBB
recipient held  5  HNNNBB HNNNBB N HNNNBB
recipient held  9  HNNNBB HNNNBB N HNNNBB
former    none  0  LLLLLL HNNNBB L HNNABB
former    none  4  LLLLLL HNNNBB L HNNABB
former    none  5  LLLLLL HNNNBB L HNNABB
former    none  9  LLLLLL HNNNBB L HNNABB
former    over  0  LLLLLL HNNNBB L HNNABB
former    over  4  LLLLLL HNNNBB L HNNABB
former    over  5  LLLLLL HNNNBB L HNNABB
former    over  9  LLLLLL HNNNBB L HNNABB
former    waits 0  LLLLLL HNNNBB L HNNABB
former    waits 4  LLLLLL HNNNBB L HNNABB
former    waits 5  LLLLLL HNNNBB L HNNABB
former    waits 9  LLLLLL HNNNBB L HNNABB
former    held  0  HNNNBB HNNNBB N HNNABB
former    held  4  HNNNBB HNNNBB N HNNABB
former    held  5  HNNNBB HNNNBB N HNNABB
former    held  9  HNNNBB HNNNBB N HNNABB
heir      none  0  LLLLLL HSSABB L HSSNBB
heir      none  4  LLLLLL HSSABB L HSSNBB
heir      none  5  LLLLLL HSSFBB L HSSNBB
heir      none  9  LLLLLL HSSFBB L HSSNBB
heir      over  0  LLLLLL HSSABB L HSSNBB
heir      over  4  LLLLLL HSSABB L HSSNBB
heir      over  5  LLLLLL HSSFBB L HSSNBB
heir      over  9  LLLLLL HSSFBB L HSSNBB
heir      waits 0  LLLLLL HSSABB L HSSNBB
heir      waits 4  LLLLLL HSSABB L HSSNBB
heir      waits 5  LLLLLL HSSFBB L HSSNBB
heir      waits 9  LLLLLL HSSFBB L HSSNBB
heir      held  0  HSSABB HSSABB A HSSNBB
heir      held  4  HSSABB HSSABB A HSSNBB
heir      held  5  HSSFBB HSSFBB F HSSNBB
heir      held  9  HSSFBB HSSFBB F HSSNBB
other     none  0  LLLLLL HNNNBB L HNNNBB
other     none  4  LLLLLL HNNNBB L HNNNBB
other     none  5  LLLLLL HNNNBB L HNNNBB
other     none  9  LLLLLL HNNNBB L HNNNBB
other     over  0  LLLLLL HNNNBB L HNNNBB
other     over  4  LLLLLL HNNNBB L HNNNBB
other     over  5  LLLLLL HNNNBB L HNNNBB
other     over  9  LLLLLL HNNNBB L HNNNBB
other     waits 0  LLLLLL HNNNBB L HNNNBB
other     waits 4  LLLLLL HNNNBB L HNNNBB
other     waits 5  LLLLLL HNNNBB L HNNNBB
other     waits 9  LLLLLL HNNNBB L HNNNBB
other     held  0  HNNNBB HNNNBB N HNNNBB
other     held  4  HNNNBB HNNNBB N HNNNBB
other     held  5  HNNNBB HNNNBB N HNNNBB
other     held  9  HNNNBB HNNNBB N HNNNBB
stranger  none  0  LLLLLL HNNNBB L HNNNBB
stranger  none  4  LLLLLL HNNNBB L HNNNBB
stranger  none  5  LLLLLL HNNNBB L HNNNBB
stranger  none  9  LLLLLL HNNNBB L HNNNBB
stranger  over  0  LLLLLL HNNNBB L HNNNBB
stranger  over  4  LLLLLL HNNNBB L HNNNBB
stranger  over  5  LLLLLL HNNNBB L HNNNBB
stranger  over  9  LLLLLL HNNNBB L HNNNBB
stranger  waits 0  LLLLLL HNNNBB L HNNNBB
stranger  waits 4  LLLLLL HNNNBB L HNNNBB
stranger  waits 5  LLLLLL HNNNBB L HNNNBB
stranger  waits 9  LLLLLL HNNNBB L HNNNBB
stranger  held  0  HNNNBB HNNNBB N HNNNBB
stranger  held  4  HNNNBB HNNNBB N HNNNBB
stranger  held  5  HNNNBB HNNNBB N HNNNBB
stranger  held  9  HNNNBB HNNNBB N HNNNBB
)";

constexpr std::array<const char*, 8> kStates = {"no-map", "owner", "donor", "recipient",
                                                "former", "heir",  "other", "stranger"};
constexpr std::array<const char*, 4> kLeases = {"none", "over", "waits", "held"};
constexpr std::array<uint64_t, 4> kFloors = {0, 4, 5, 9};

struct Line {
  std::string state;
  std::string lease;
  uint64_t floor = 0;
  std::string write;
  std::string read;
  std::string plain;
  std::string peek;
};

std::vector<Line> Lines() {
  std::vector<Line> lines;
  std::istringstream in(kTable);
  Line line;
  while (in >> line.state >> line.lease >> line.floor >> line.write >> line.read >> line.plain >>
         line.peek) {
    lines.push_back(line);
  }
  return lines;
}

char LetterOf(const Admission& admission) {
  switch (admission.verdict) {
    case Verdict::kAdmit:
      return 'A';
    case Verdict::kNoLease:
      return 'L';
    case Verdict::kWrongHistory:
      return 'H';
    case Verdict::kNotOwner:
      return 'N';
    case Verdict::kStaleEpoch:
      return 'S';
    case Verdict::kOwnerBehind:
      return 'B';
    case Verdict::kFencing:
      return 'F';
  }
  return '?';
}

Membership::Ptr MapOf(const std::string& state) {
  const bool owns = state == "owner" || state == "donor" || state == "heir";
  std::vector<Move> moves;
  const auto move = [&](const char* from, const char* to, MovePhase phase) {
    moves.push_back({"grow", 0, from, to, phase, HashRangeSet({Quarter(0)})});
  };
  if (state == "donor") move("a", "b", MovePhase::kWarming);
  if (state == "recipient") move("b", "a", MovePhase::kWarming);
  if (state == "former") move("a", "b", MovePhase::kGrace);
  if (state == "heir") move("b", "a", MovePhase::kGrace);
  return QuarterMap(kVersion, {{{owns ? 0u : 1u, 5}, {1, 1}, {2, 1}, {2, 1}}}, moves);
}

OwnerView ViewIn(const Line& line) {
  OwnerView view(kQuarterHistory, "cache", line.state == "stranger" ? "z" : "a", {{7, 7}});
  if (line.state != "no-map") {
    EXPECT_OK(view.Install(MapOf(line.state)));
  }
  if (line.lease != "none") {
    const absl::Duration ago = line.lease == "over" ? absl::Seconds(10) : absl::ZeroDuration();
    const uint64_t seq = view.Renew(kNow + -ago);
    const Version version(line.lease == "waits" ? kVersion + 1 : kVersion);
    EXPECT_OK(view.Grant({seq, Term(1), absl::Seconds(10), version, {}}));
  }
  if (line.floor > 0) view.Fence(HashRangeSet({Quarter(0)}), Epoch(line.floor));
  return view;
}

template <typename Admit>
std::string Answers(const Admit& admit) {
  std::string letters;
  letters += LetterOf(admit(EpochWord{"a1b2c3d5", Epoch(5)}));
  for (const uint64_t epoch : {uint64_t{0}, uint64_t{4}, uint64_t{5}, uint64_t{6}, UINT64_MAX}) {
    letters += LetterOf(admit(EpochWord{"a1b2c3d4", Epoch(epoch)}));
  }
  return letters;
}

TEST(AdmissionTable, EveryStateAndEveryRequest) {
  for (const Line& line : Lines()) {
    SCOPED_TRACE(line.state + ", lease " + line.lease + ", floor " + std::to_string(line.floor));
    const OwnerView view = ViewIn(line);
    EXPECT_EQ(Answers([&](const EpochWord& word) { return view.AdmitWrite(In(0), word, kNow); }),
              line.write);
    EXPECT_EQ(Answers([&](const EpochWord& word) { return view.AdmitRead(In(0), word); }),
              line.read);
    EXPECT_EQ(Answers([&](const EpochWord& word) { return view.AdmitPeek(In(0), word); }),
              line.peek);
    EXPECT_EQ(std::string(1, LetterOf(view.AdmitPlain(In(0), kNow))), line.plain);
  }
}

// A refusal names the owner and the epoch of this owner's map, whatever it refuses for.
TEST(AdmissionTable, EveryAnswerCuresTheClient) {
  for (const Line& line : Lines()) {
    SCOPED_TRACE(line.state + ", lease " + line.lease + ", floor " + std::to_string(line.floor));
    const OwnerView view = ViewIn(line);
    const bool owns = line.state == "owner" || line.state == "donor" || line.state == "heir";
    for (const EpochWord word : {EpochWord{"a1b2c3d5", Epoch(5)}, EpochWord{"a1b2c3d4", Epoch(4)},
                                 EpochWord{"a1b2c3d4", Epoch(5)}}) {
      for (const Admission& answer :
           {view.AdmitWrite(In(0), word, kNow), view.AdmitRead(In(0), word),
            view.AdmitPlain(In(0), kNow), view.AdmitPeek(In(0), word)}) {
        if (line.state == "no-map") {
          EXPECT_EQ(answer.version, Version());
          EXPECT_EQ(answer.owner, std::nullopt);
          continue;
        }
        EXPECT_EQ(answer.version, Version(kVersion));
        EXPECT_EQ(answer.epoch, Epoch(5));
        EXPECT_EQ(answer.owner, owns ? NodeIndex{0} : NodeIndex{1});
      }
    }
  }
}

TEST(AdmissionTable, MissesNoStateAndHasNoneTwice) {
  std::set<std::tuple<std::string, std::string, uint64_t>> seen;
  for (const Line& line : Lines()) {
    EXPECT_TRUE(seen.emplace(line.state, line.lease, line.floor).second);
    EXPECT_EQ(line.write.size(), 6u);
    EXPECT_EQ(line.read.size(), 6u);
    EXPECT_EQ(line.plain.size(), 1u);
    EXPECT_EQ(line.peek.size(), 6u);
  }
  for (const std::string state : kStates) {
    for (const std::string lease : kLeases) {
      for (const uint64_t floor : kFloors) {
        const bool possible = state != "no-map" || lease != "held";
        EXPECT_EQ(seen.contains({state, lease, floor}), possible) << state << lease << floor;
      }
    }
  }
}

// Of all states of the table, a write under the range's epoch gets through in these alone.
TEST(AdmissionTable, AWriteNeedsOwnershipALeaseAndNoFloor) {
  for (const Line& line : Lines()) {
    const bool owns = line.state == "owner" || line.state == "donor" || line.state == "heir";
    const bool may = owns && line.lease == "held" && line.floor < 5;
    EXPECT_EQ(line.write.find('A') != std::string::npos, may) << line.state << line.lease;
    EXPECT_EQ(line.write[3] == 'A', may);
    EXPECT_EQ(line.plain == "A", may);
  }
}

}  // namespace
}  // namespace warmring
