#pragma once

#include <string>
#include <vector>

namespace warmring::crash {

// Every point at which a test of this repository can stop, end or fail a process, by its name: the
// one list of them. A unit test compares it with the names in the sources, and a test that runs
// after all kill tests fails when one of them was never reached.
//
// `warmringd`: around each persist X of the server
//   X.before      it is made, and nobody knows of it
//   X.unknown     it is durable, and the store's answer is lost
//   X.after       it is durable, and nobody was told
//   X.published   the version went to those who watch
//   X.partial     some owners have their new tasks, others do not
//   X.sent        all have them
// and around each write of the store. `agent`, `module` and `client`: in the owner's parts and in
// the client library.
struct CrashPoints {
  std::vector<std::string> warmringd;
  std::vector<std::string> agent;
  std::vector<std::string> module;
  std::vector<std::string> client;

  std::vector<std::string> All() const;
};
CrashPoints ListedCrashPoints();

// The persists of the server: "p5" and so on.
const std::vector<std::string>& ListedPersists();
// Of those, which change the tasks of more than one owner in the migrations of these tests.
const std::vector<std::string>& PersistsOfMany();

}  // namespace warmring::crash
