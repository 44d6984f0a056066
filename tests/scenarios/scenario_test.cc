#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/placement/allocator.h"
#include "migrations/machine_world_testing.h"

// Plays the stories beside this file. README.md there has the commands.

namespace warmring {
namespace {

using Words = std::vector<std::string>;

Node MakeNode(int number) {
  Node node;
  node.id = fmt::format("cache-{:02}", number);
  node.address = fmt::format("10.0.0.{}:6379", number + 1);
  return node;
}

Membership::Ptr MakeBase(PlacementKind placement, int nodes) {
  MembershipData data;
  data.version = Version(41);
  data.spec.id = "sessions";
  data.spec.placement = placement;
  data.spec.directory_bits = 10;
  data.spec.tokens_per_node = 12;
  for (int i = 0; i < nodes; ++i) data.nodes.push_back(MakeNode(i));
  data.ranges = InitialRanges(data.spec, data.nodes, Epoch(3));
  return *Membership::Create(std::move(data));
}

absl::Duration ParseDuration(const std::string& text) {
  absl::Duration duration;
  EXPECT_TRUE(absl::ParseDuration(text, &duration)) << text;
  return duration;
}

// "3-9"
std::vector<uint32_t> Buckets(const std::string& text) {
  const size_t dash = text.find('-');
  std::vector<uint32_t> buckets;
  for (int bucket = std::stoi(text); bucket <= std::stoi(text.substr(dash + 1)); ++bucket) {
    buckets.push_back(static_cast<uint32_t>(bucket));
  }
  return buckets;
}

std::string Percent(double share) { return fmt::format("{:.1f}%", share * 100); }

std::string Describe(const Task& task) {
  if (const auto* warm = std::get_if<WarmTask>(&task.body)) {
    HashRangeSet all;
    Words from;
    for (const TransferSource& source : warm->sources) {
      all = all.Union(source.ranges);
      from.push_back(source.donor);
    }
    return fmt::format("warm {} from {}", Percent(all.Share()), absl::StrJoin(from, " "));
  }
  if (const auto* verify = std::get_if<VerifyTask>(&task.body)) {
    return fmt::format("verify {} keys", verify->sample);
  }
  if (const auto* fence = std::get_if<FenceTask>(&task.body)) {
    return fmt::format("fence {} up to epoch {}", Percent(fence->ranges.Share()),
                       fence->floor.value);
  }
  const auto& prepare = std::get<PrepareTask>(task.body);
  Words from;
  for (const PrepareTask::Donor& donor : prepare.donors) from.push_back(donor.source.donor);
  const char* mode = prepare.mode == PrepareTask::Mode::kChanges ? "changes"
                     : prepare.mode == PrepareTask::Mode::kDirty ? "dirty set"
                                                                 : "purge";
  return fmt::format("prepare for epoch {} by {} from {}", prepare.epoch.value, mode,
                     absl::StrJoin(from, " "));
}

// One story: its commands against one world.
class Scenario {
 public:
  std::string Run(const Words& words) {
    const std::string& command = words[0];
    if (command == "plan") return Begin(words);
    if (world_ == nullptr) return "no plan yet\n";
    std::string answer;
    if (command == "run" || command == "step") {
      answer = Advance(words);
    } else if (command == "ask") {
      answer = Ask(words[1]);
    } else if (command == "restart" || command == "cut" || command == "join") {
      Disturb(words);
    } else if (command == "drop") {
      Drop(words);
    } else if (command == "crash") {
      Crash(words);
    } else if (command == "held") {
      answer = world_->machine().Progress().held + "\n";
    } else {
      answer = Show(command);
    }
    for (const std::string& fault : world_->faults()) answer += "FAULT " + fault + "\n";
    return answer;
  }

 private:
  std::string Begin(const Words& words) {
    MigrationPlan plan;
    plan.keyspace = "sessions";
    int nodes = 3;
    for (size_t i = 2; i < words.size(); ++i) {
      const std::string& word = words[i];
      if (word == "await") {
        plan.strategy.await_promotion = true;
        continue;
      }
      const std::string& value = words[++i];
      if (word == "add") plan.changes.push_back(AddNode{MakeNode(std::stoi(value))});
      if (word == "remove") plan.changes.push_back(RemoveNode{MakeNode(std::stoi(value)).id});
      if (word == "weight") {
        const uint32_t percent = static_cast<uint32_t>(std::stoi(words[++i]));
        plan.changes.push_back(SetWeight{MakeNode(std::stoi(value)).id, percent * 10});
      }
      if (word == "pin" || word == "move") {
        const auto to = MakeNode(std::stoi(words[++i])).id;
        plan.changes.push_back(MoveBuckets{Buckets(value), to, word == "pin"});
      }
      if (word == "unpin") plan.changes.push_back(Unpin{Buckets(value)});
      if (word == "policy") plan.strategy.fence_policy = FencePolicy::kAckOrLease;
      if (word == "hold") plan.strategy.hold = ParseDuration(value);
      if (word == "soak") plan.strategy.soak = ParseDuration(value);
      if (word == "fence") plan.strategy.fence_timeout = ParseDuration(value);
      if (word == "nodes") nodes = std::stoi(value);
      if (word == "steps") {
        plan.strategy.commit_steps_ppm.clear();
        for (const auto& step : absl::StrSplit(value, ',')) {
          plan.strategy.commit_steps_ppm.push_back(
              static_cast<uint32_t>(std::stoi(std::string(step)) * 10'000));
        }
      }
    }
    const PlacementKind placement =
        words[1] == "ring" ? PlacementKind::kRing : PlacementKind::kDirectory;
    world_ = std::make_unique<MachineWorld>(MakeBase(placement, nodes), plan);
    const Preview& preview = world_->record().preview;
    std::string answer =
        fmt::format("moves {} (ideal {}, modulo {}) in {} waves\n", Percent(preview.moved_share),
                    Percent(preview.ideal_share), Percent(preview.modulo_share), preview.waves);
    for (const std::string& fault : world_->faults()) answer += "FAULT " + fault + "\n";
    return answer;
  }

  // Runs until it is so, and tells the persists on the way.
  std::string RunUntil(const std::function<bool()>& done) {
    std::string answer;
    size_t told = world_->steps().size();
    const bool came = world_->RunUntil([&] {
      for (; told < world_->steps().size(); ++told) {
        answer += fmt::format("{:<18} v{} {}\n", world_->steps()[told],
                              world_->head().version().value, StageName(world_->record().stage));
      }
      return done();
    });
    return came ? answer : answer + "it did not come to that\n";
  }

  std::string Advance(const Words& words) {
    if (words[0] == "step") {
      int left = std::stoi(words[1]);
      return RunUntil([&] { return left-- == 0; });
    }
    if (words[1] == "end") {
      return RunUntil([&] { return world_->machine().finished(); });
    }
    if (words[1] == "tasks") {
      return RunUntil([&] { return world_->TaskOf<PrepareTask>(words[2]).has_value(); });
    }
    return RunUntil([&] { return StageName(world_->record().stage) == words[1]; });
  }

  std::string Ask(const std::string& what) {
    static const std::map<std::string, OperatorCommand> kCommands = {
        {"pause", OperatorCommand::kPause},
        {"resume", OperatorCommand::kResume},
        {"promote", OperatorCommand::kPromote},
        {"abort", OperatorCommand::kAbort},
        {"undo", OperatorCommand::kUndo}};
    const absl::Status status = world_->Command(kCommands.at(what));
    return status.ok() ? "" : std::string(status.message()) + "\n";
  }

  void Disturb(const Words& words) {
    if (words[0] == "cut") return world_->SetConnected(words[1], false);
    if (words[0] == "join") return world_->SetConnected(words[1], true);
    if (words[1] == "server") return world_->RestartServer();
    world_->RestartNode(words[1]);
  }

  void Drop(const Words& words) {
    const std::string what = words[1];
    const NodeId node = words.size() > 2 ? words[2] : "";
    world_->set_report_filter([what, node](TaskReport& report) {
      const bool named =
          (what == "fence" && std::holds_alternative<FenceAck>(report.body)) ||
          (what == "prepared" && std::holds_alternative<PreparedReport>(report.body)) ||
          (what == "verify" && std::holds_alternative<VerifyReport>(report.body)) ||
          (what == "warm" && std::holds_alternative<WarmReport>(report.body));
      return !named || report.node != node;
    });
  }

  void Crash(const Words& words) {
    const std::string step = absl::StrJoin(words.begin() + 2, words.end(), " ");
    const auto crash =
        words[1] == "before" ? MachineWorld::Crash::kBefore : MachineWorld::Crash::kAfter;
    auto armed = std::make_shared<bool>(true);
    world_->set_crash([step, crash, armed](int, const PersistCommand& command) {
      if (command.touch || StepName(command.step) != step || !*armed) {
        return MachineWorld::Crash::kNone;
      }
      *armed = false;
      return crash;
    });
  }

  std::string Show(const std::string& what) const {
    const MigrationRecord& record = world_->record();
    std::string answer;
    if (what == "record") {
      answer = fmt::format("{}, {} of {} waves committed, attempt {}{}{}{}\n",
                           StageName(record.stage), record.waves_committed, record.preview.waves,
                           record.attempt + 1, record.paused ? ", paused" : "",
                           record.awaiting_promotion ? ", awaiting promotion" : "",
                           record.unclean ? ", unclean" : "");
      if (!record.failure.empty()) answer += record.failure + "\n";
    } else if (what == "head") {
      for (const Node& node : world_->head().nodes()) {
        answer += fmt::format(
            "{} owns {}{}\n", node.id, Percent(world_->head().OwnedBy(node.id).Share()),
            node.weight_milli == 1000 ? ""
                                      : fmt::format(" at weight {:g}", node.weight_milli / 1000.0));
      }
      if (!world_->head().pins().empty()) {
        answer += fmt::format("{} buckets are pinned\n", world_->head().pins().size());
      }
      for (const Move& move : world_->head().moves()) {
        answer += fmt::format("wave {}: {} -> {} {} {}\n", move.wave, move.from, move.to,
                              move.phase == MovePhase::kWarming ? "warming" : "grace",
                              Percent(move.ranges.Share()));
      }
    } else if (what == "tasks") {
      for (const auto& [node, tasks] : world_->tasks()) {
        for (const Task& task : tasks) answer += node + ": " + Describe(task) + "\n";
      }
    } else if (what == "history") {
      for (const StageEntry& entry : record.history) {
        answer += fmt::format("{}: {}\n", StageName(entry.stage), entry.note);
      }
    } else {
      answer = "unknown command\n";
    }
    return answer;
  }

  std::unique_ptr<MachineWorld> world_;
};

// Known to the program itself: its tests are listed before anybody sets an environment for it.
std::filesystem::path Folder() { return WARMRING_SCENARIO_DIR; }

std::vector<std::string> Names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(Folder())) {
    if (entry.path().extension() == ".txt") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// The text with every answer as it is now.
std::string Play(const std::string& text) {
  Scenario scenario;
  std::istringstream in(text);
  std::string out;
  std::string line;
  Words commands;
  while (std::getline(in, line)) {
    if (line == "----") {
      out += "----\n";
      for (const std::string& command : commands) {
        out += scenario.Run(absl::StrSplit(command, ' ', absl::SkipWhitespace()));
      }
      commands.clear();
      // Up to the empty line stands the old answer.
      while (std::getline(in, line) && !line.empty()) {
      }
      out += "\n";
      continue;
    }
    out += line + "\n";
    if (!line.empty() && line[0] != '#') commands.push_back(line);
  }
  // One empty line at the end of the file is enough.
  while (out.ends_with("\n\n")) out.pop_back();
  return out;
}

class ScenarioTest : public testing::TestWithParam<std::string> {};

TEST_P(ScenarioTest, IsTold) {
  const std::filesystem::path path = Folder() / (GetParam() + ".txt");
  const std::string text = ReadFile(path);
  const std::string told = Play(text);
  if (std::getenv("WARMRING_REWRITE") != nullptr) {
    std::ofstream(path) << told;
    return;
  }
  EXPECT_EQ(told, text) << "WARMRING_REWRITE=1 writes it anew; review the difference";
  EXPECT_EQ(told.find("FAULT"), std::string::npos) << "a promise is broken";
}

INSTANTIATE_TEST_SUITE_P(Stories, ScenarioTest, testing::ValuesIn(Names()),
                         [](const auto& story) { return story.param; });

}  // namespace
}  // namespace warmring
