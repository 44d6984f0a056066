#include "tests/crash/crash_points.h"

namespace warmring::crash {

const std::vector<std::string>& ListedPersists() {
  // Session; submission, and its plan made anew when it waited; warming, verifying, fencing,
  // commit, soak, release; what is given up, is tried again; an undo's fencing and commit; a
  // growth.
  static const auto* const persists = new std::vector<std::string>{
      "p0", "p1", "pq", "p2", "p3", "p5", "p6", "p7", "p8", "pa", "pr", "pu5", "pu6", "g1"};
  return *persists;
}

const std::vector<std::string>& PersistsOfMany() {
  static const auto* const persists = new std::vector<std::string>{"p2", "p5", "p6", "pa", "pu6"};
  return *persists;
}

CrashPoints ListedCrashPoints() {
  CrashPoints points;
  for (const std::string& persist : ListedPersists()) {
    for (const char* point : {"before", "unknown", "after", "published"}) {
      points.warmringd.push_back(persist + "." + point);
    }
    // A growth has no tasks.
    if (persist != "g1") points.warmringd.push_back(persist + ".sent");
  }
  for (const std::string& persist : PersistsOfMany()) {
    points.warmringd.push_back(persist + ".partial");
  }
  points.warmringd.insert(points.warmringd.end(), {"store.write", "store.written"});
  points.agent = {"fence.before", "fence.after", "prepared.before", "report.sent",
                  "grant.before", "grant.after", "map.before",      "map.after",
                  "purge.batch",  "apply.batch", "verify.batch"};
  points.module = {"module.fence.raised",  "module.grant.read",     "module.grant.applied",
                   "module.map.installed", "module.write.admitted", "module.write.done"};
  points.client = {"cache.half", "snapshot.half"};
  return points;
}

std::vector<std::string> CrashPoints::All() const {
  std::vector<std::string> all = warmringd;
  all.insert(all.end(), agent.begin(), agent.end());
  all.insert(all.end(), module.begin(), module.end());
  all.insert(all.end(), client.begin(), client.end());
  return all;
}

}  // namespace warmring::crash
