#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/membership/membership.h"
#include "tests/crash/cluster.h"
#include "tests/crash/recorded_clients.h"
#include "tests/history/event.h"
#include "tests/history/recorder.h"

namespace warmring::crash {

// What the store says that a recorded history does not: versions, who owned each arc under which
// epoch since when, what became of migrations. Together they are judged.
//
// Thread rule: one thread at a time.
class Chronicle {
 public:
  // All must outlive it.
  Chronicle(Cluster* cluster, std::vector<HistoryKey> keys, const history::Recorder* recorder)
      : cluster_(cluster), keys_(std::move(keys)), recorder_(recorder) {}

  // For what is kept of a history that breaks a rule: the seed, the migration.
  void SetTitle(std::string title) { title_ = std::move(title); }
  // In place of the directory of temporary files; empty: that.
  void SetEvidenceDirectory(std::string path) { evidence_directory_ = std::move(path); }

  // Reads what is new in the store and judges the history so far. A violation is saved, with the
  // logs of all processes, in a directory that stays.
  //
  // Errors: DataLoss naming the rules and the directory; those of the calls to warmringd.
  [[nodiscard]] absl::Status Judge();

  // Stops warmringd, reads its store and judges the history with what only the store knows: epochs
  // that were given up, the audit lines and what they say was done. The history is over then.
  //
  // Errors: as Judge; those of the store.
  [[nodiscard]] absl::Status JudgeForTheLastTime();

  // "1234 operations (1000 acknowledged, 5 unknown), 321 registers (0 undecided): no violation"
  const std::string& Summary() const { return summary_; }
  size_t Violations() const { return violations_; }

 private:
  absl::Status ReadVersions();
  absl::Status ReadMigrations();
  absl::Status ReadStore();
  absl::Status JudgeAll();
  absl::Status Save(const std::vector<history::Event>& events, const std::string& findings);

  Cluster* const cluster_;
  const std::vector<HistoryKey> keys_;
  const history::Recorder* const recorder_;
  std::string title_;
  std::string evidence_directory_;

  struct Tenure {
    NodeId owner;
    Epoch epoch;
    friend bool operator==(const Tenure&, const Tenure&) = default;
  };
  Version newest_;                               // that was read
  std::set<Epoch> epochs_;                       // of all versions
  std::map<std::string, Tenure> tenures_;        // by arc, at newest_
  std::map<MigrationId, std::string> outcomes_;  // as first seen
  std::vector<history::Event> of_store_;
  std::vector<std::pair<size_t, MigrationId>> commits_;  // indices into of_store_, and by whom
  std::string summary_;
  size_t violations_ = 0;
};

}  // namespace warmring::crash
