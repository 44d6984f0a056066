#include "client/cli/render/table.h"

#include <cstdio>
#include <cstdlib>
#include <memory>

#include <libsmartcols.h>

namespace warmring::cli {

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

void Table::AddRow(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

std::string Table::ToString() const {
  struct Unref {
    void operator()(libscols_table* t) const { scols_unref_table(t); }
  };
  std::unique_ptr<libscols_table, Unref> table(scols_new_table());
  scols_table_enable_noencoding(table.get(), 1);
  scols_table_set_column_separator(table.get(), "  ");
  for (const Column& column : columns_) {
    scols_table_new_column(table.get(), column.name.c_str(), 0, column.right ? SCOLS_FL_RIGHT : 0);
  }
  for (const auto& row : rows_) {
    libscols_line* line = scols_table_new_line(table.get(), nullptr);
    for (size_t i = 0; i < row.size(); ++i) scols_line_set_data(line, i, row[i].c_str());
  }
  // The stream keeps the table independent of the terminal's width: rows are never cut.
  char* buffer = nullptr;
  size_t size = 0;
  FILE* stream = open_memstream(&buffer, &size);
  scols_table_set_stream(table.get(), stream);
  scols_print_table(table.get());
  std::fclose(stream);
  std::string text(buffer, size);
  std::free(buffer);
  return text;
}

}  // namespace warmring::cli
