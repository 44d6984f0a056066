// The model proves what the real table does only as long as both have the same steps. Each step
// that changes an owner or an epoch, as the code that builds it says, is claimed by exactly one
// action of the models, with its stages and its evidence; and what a model claims, the table has.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/placement/allocator.h"
#include "migrations/migration_machine.h"
#include "migrations/planner.h"
#include "migrations/step_builder.h"
#include "migrations/transition_table.h"

namespace warmring {
namespace {

constexpr std::pair<Evidence, const char*> kEvidenceNames[] = {
    {kPlanChecked, "PlanChecked"},   {kWarmed, "Warmed"},
    {kVerified, "Verified"},         {kPromoted, "Promoted"},
    {kDonorsClosed, "DonorsClosed"}, {kRecipientsReady, "RecipientsReady"},
    {kHoldOver, "HoldOver"},         {kLastWave, "LastWave"},
    {kSoakOver, "SoakOver"},         {kUndoPossible, "UndoPossible"},
};

// One rule of the table, or one claim of a model.
struct Rule {
  std::string step;
  std::string from;
  std::string to;
  std::set<std::string> needs;
  friend auto operator<=>(const Rule&, const Rule&) = default;

  std::string Text() const {
    return fmt::format("step: {}; from: {}; to: {}; needs: {}", step, from, to,
                       needs.empty() ? "none" : absl::StrJoin(needs, ", "));
  }
};

struct Claim {
  Rule rule;
  std::string file;
  std::string action;  // the text of the action below the comment
};

struct Models {
  std::vector<Claim> claims;
  std::map<std::string, std::map<std::string, std::string>> guards;  // file -> evidence -> macro
  std::map<std::string, std::set<std::string>> left_out;             // file -> evidence
};

std::string Trimmed(std::string_view text) {
  return std::string(absl::StripAsciiWhitespace(absl::string_view(text.data(), text.size())));
}

std::set<std::string> ListOf(std::string_view text) {
  std::set<std::string> names;
  for (const auto& part : absl::StrSplit(absl::string_view(text.data(), text.size()), ',')) {
    std::string name(absl::StripAsciiWhitespace(part));
    if (!name.empty() && name != "none") names.insert(std::move(name));
  }
  return names;
}

std::optional<std::string> After(const std::string& line, std::string_view word) {
  const size_t at = line.find(word);
  if (at == std::string::npos) return std::nullopt;
  return line.substr(at + word.size());
}

// `step: P6 commit wave; from: Fencing; to: Committed; needs: DonorsClosed, RecipientsReady`
Rule ParseRule(const std::string& text) {
  Rule rule;
  const std::vector<std::string> parts = absl::StrSplit(text, ';');
  EXPECT_EQ(parts.size(), 4u) << text << ": name; from: stage; to: stage; needs: evidence or none";
  if (parts.size() != 4) return rule;
  rule.step = Trimmed(parts[0]);
  rule.from = Trimmed(After(parts[1], "from:").value_or(""));
  rule.to = Trimmed(After(parts[2], "to:").value_or(""));
  rule.needs = ListOf(After(parts[3], "needs:").value_or(""));
  return rule;
}

void ReadModel(const std::filesystem::path& path, Models& models) {
  const std::string file = path.filename().string();
  std::ifstream in(path);
  std::string line;
  std::vector<size_t> open;  // claims whose action follows
  bool comment = false;
  while (std::getline(in, line)) {
    if (line.starts_with("/*")) {
      comment = true;
      open.clear();
    }
    if (!comment) {
      for (const size_t claim : open) models.claims[claim].action += line + "\n";
      continue;
    }
    const size_t end = line.find("*/");
    const std::string text = line.substr(0, end);
    if (const auto rule = After(text, " step: ")) {
      open.push_back(models.claims.size());
      models.claims.push_back({ParseRule(*rule), file, ""});
    } else if (const auto guard = After(text, " guard: ")) {
      const std::vector<std::string> sides = absl::StrSplit(*guard, '=');
      ASSERT_EQ(sides.size(), 2u) << file << ": " << line;
      models.guards[file][Trimmed(sides[0])] = Trimmed(sides[1]);
    } else if (const auto names = After(text, " left out: ")) {
      models.left_out[file].merge(ListOf(names->substr(0, names->find('.'))));
    }
    if (end != std::string::npos) comment = false;
  }
}

Models ReadModels() {
  Models models;
  const char* root = std::getenv("WARMRING_SOURCE_DIR");
  EXPECT_NE(root, nullptr) << "WARMRING_SOURCE_DIR is not set: run the test through ctest";
  if (root == nullptr) return models;
  const std::filesystem::path directory = std::filesystem::path(root) / "tests/model";
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.path().extension() == ".pml") ReadModel(entry.path(), models);
  }
  return models;
}

std::set<std::string> NamesOf(uint32_t evidence) {
  std::set<std::string> names;
  for (const auto& [bit, name] : kEvidenceNames) {
    if ((evidence & bit) != 0) names.insert(name);
    evidence &= ~static_cast<uint32_t>(bit);
  }
  EXPECT_EQ(evidence, 0u) << "evidence without a name: add it to kEvidenceNames of this test";
  return names;
}

Rule RuleOf(const TransitionRule& rule) {
  return {std::string(StepName(rule.step)), std::string(StageName(rule.from)),
          std::string(StageName(rule.to)), NamesOf(rule.needs)};
}

// A node joins in several waves.
MigrationRecord Growth() {
  MembershipData data;
  data.version = Version(41);
  data.spec.id = "sessions";
  data.spec.placement = PlacementKind::kRing;
  data.spec.tokens_per_node = 12;
  for (const char* id : {"a", "b", "c"}) {
    Node node;
    node.id = id;
    node.address = fmt::format("{}:6379", id);
    data.nodes.push_back(std::move(node));
  }
  data.ranges = InitialRanges(data.spec, data.nodes, Epoch(3));
  const Membership::Ptr base = *Membership::Create(std::move(data));
  MigrationPlan plan;
  plan.keyspace = "sessions";
  Node joining;
  joining.id = "d";
  joining.address = "d:6379";
  plan.changes = {AddNode{joining}};
  const absl::StatusOr<Preview> preview = Plan(*base, plan, {});
  EXPECT_TRUE(preview.ok()) << preview.status().ToString();
  return NewMigrationRecord("m-1", "test", absl::UnixEpoch(), plan, *preview, Id128{1, 1});
}

// Whether the code that builds this step changes what owners accept: an epoch is used up, a range
// gets an owner, or is cut.
bool ChangesOwnership(const TransitionRule& rule) {
  MigrationRecord record = Growth();
  EXPECT_GE(record.preview.waves, 2u);
  record.stage = rule.from;
  record.prepared_version = Version(42);
  record.wave_epoch = Epoch(4);
  record.wave = 1;
  record.waves_committed = 1;
  MembershipData head;
  head.version = Version(43);
  head.spec.id = "sessions";
  head.spec.placement = PlacementKind::kRing;
  head.nodes.push_back(record.preview.nodes_added[0]);
  head.ranges = {{UINT64_MAX, 0, Epoch(3)}};
  MachineView view;
  view.head = *Membership::Create(std::move(head));
  view.next_epoch = Epoch(5);
  const PersistCommand command = BuildStep(record, rule.step, "", view);
  if (command.reserve_epoch) return true;
  if (!command.update.has_value()) return false;
  return !command.update->assignments.empty() || !command.update->split_at.empty();
}

TEST(ModelTable, TheBuilderSaysWhichStepsChangeOwnership) {
  std::set<Step> changing;
  for (const TransitionRule& rule : kTransitions) {
    if (ChangesOwnership(rule)) changing.insert(rule.step);
  }
  for (const Step step :
       {Step::kPrepare, Step::kFenceWave, Step::kCommitWave, Step::kAbortFencing, Step::kRetreat,
        Step::kFenceUndo, Step::kCommitUndo, Step::kAbandonUndo}) {
    EXPECT_TRUE(changing.contains(step)) << StepName(step);
  }
  for (const Step step : {Step::kStartVerify, Step::kStartSoak, Step::kGiveUp, Step::kAbort}) {
    EXPECT_FALSE(changing.contains(step)) << StepName(step);
  }
}

TEST(ModelTable, EachStepThatChangesOwnershipIsClaimedOnce) {
  const Models models = ReadModels();
  for (const TransitionRule& entry : kTransitions) {
    const Rule rule = RuleOf(entry);
    std::vector<std::string> claimed_by;
    for (const Claim& claim : models.claims) {
      if (claim.rule == rule) claimed_by.push_back(claim.file);
    }
    if (!ChangesOwnership(entry)) {
      EXPECT_TRUE(claimed_by.empty()) << rule.Text() << "\nchanges no owner and no epoch";
      continue;
    }
    EXPECT_LE(claimed_by.size(), 1u)
        << rule.Text() << "\nis claimed more than once, by " << absl::StrJoin(claimed_by, " and ");
    EXPECT_FALSE(claimed_by.empty())
        << "No model claims this rule of migrations/transition_table.h, which changes an owner or "
           "an epoch. If an action of tests/model/fence.pml does the same (A_START: a fence under "
           "a reserved epoch; A_COMMIT: the recipient owns on evidence; A_ABORT: the donor goes on "
           "under a fresh epoch), put this line into the comment above that action:\n * "
        << rule.Text()
        << "\nIf none does, the step is not proved: write an action for it and a mutant that "
           "leaves its guard out (tests/model/README.md).";
  }
}

TEST(ModelTable, WhatAModelClaimsTheTableHas) {
  const Models models = ReadModels();
  EXPECT_FALSE(models.claims.empty());
  std::set<Rule> rules;
  for (const TransitionRule& rule : kTransitions) rules.insert(RuleOf(rule));
  for (const Claim& claim : models.claims) {
    EXPECT_TRUE(rules.contains(claim.rule))
        << claim.file << " claims\n * " << claim.rule.Text()
        << "\nand migrations/transition_table.h has no such rule: a name, a stage or the evidence "
           "is another one there. Change the claim, and the action if the rule has changed.";
  }
}

// Evidence is a guard of the action, or is said to be left out; nothing else is a guard.
TEST(ModelTable, ActionsAreGuardedByTheEvidenceThatTheyClaim) {
  const Models models = ReadModels();
  std::set<std::string> known;
  for (const auto& [bit, name] : kEvidenceNames) known.insert(name);
  for (const auto& [file, names] : models.left_out) {
    for (const std::string& name : names) {
      EXPECT_TRUE(known.contains(name)) << file << ": left out: " << name << " is no evidence";
    }
  }
  for (const auto& [file, guards] : models.guards) {
    for (const auto& [name, macro] : guards) {
      EXPECT_TRUE(known.contains(name)) << file << ": guard: " << name << " is no evidence";
    }
  }
  for (const Claim& claim : models.claims) {
    ASSERT_FALSE(claim.action.empty()) << claim.file << ": nothing follows " << claim.rule.Text();
    const auto found = models.guards.find(claim.file);
    const auto guards =
        found == models.guards.end() ? std::map<std::string, std::string>() : found->second;
    for (const std::string& name : claim.rule.needs) {
      const bool left_out =
          models.left_out.contains(claim.file) && models.left_out.at(claim.file).contains(name);
      EXPECT_TRUE(left_out != guards.contains(name))
          << claim.file << ": " << name << " must be a guard or be left out, and not both";
    }
    for (const auto& [name, macro] : guards) {
      const bool guarded = claim.action.find(macro + "(") != std::string::npos;
      EXPECT_EQ(guarded, claim.rule.needs.contains(name))
          << claim.file << ": the action of\n * " << claim.rule.Text() << "\n"
          << (guarded ? "asks for " : "does not ask for ") << name << " (" << macro << ")";
    }
  }
}

}  // namespace
}  // namespace warmring
