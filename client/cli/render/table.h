#pragma once

#include <string>
#include <vector>

namespace warmring::cli {

// A table for people: columns aligned to their widest cell, right-aligned where asked. Not
// thread-safe.
class Table {
 public:
  struct Column {
    std::string name;
    bool right = false;
  };
  explicit Table(std::vector<Column> columns);
  // REQUIRES: as many cells as columns.
  void AddRow(std::vector<std::string> cells);
  std::string ToString() const;
  bool empty() const { return rows_.empty(); }

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace warmring::cli
