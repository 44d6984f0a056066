#include "client/cli/render/table.h"

#include <cstdio>
#include <cstdlib>
#include <memory>

#include <libsmartcols.h>
#include <locale.h>

namespace warmring::cli {
namespace {

// libsmartcols measures text by the thread's locale, and prints for ever when that cannot decode a
// cell, as "C" (what a program has that was started without one) cannot decode an arrow. The text
// here is UTF-8 whatever the user's locale is.
class Utf8 {
 public:
  Utf8() {
    for (const char* name : {"C.UTF-8", "C.utf8", "en_US.UTF-8"}) {
      if (locale_ == nullptr) locale_ = newlocale(LC_CTYPE_MASK, name, nullptr);
    }
    if (locale_ != nullptr) before_ = uselocale(locale_);
  }
  ~Utf8() {
    if (locale_ == nullptr) return;
    uselocale(before_);
    freelocale(locale_);
  }
  Utf8(const Utf8&) = delete;
  Utf8& operator=(const Utf8&) = delete;

  // A system without any such locale gets what its own can decode.
  std::string Decodable(const std::string& text) const {
    if (locale_ != nullptr) return text;
    std::string ascii;
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte < 0x80) ascii += c;
      if (byte >= 0xc0) ascii += '?';  // the first byte of a character
    }
    return ascii;
  }

 private:
  locale_t locale_ = nullptr;
  locale_t before_ = nullptr;
};

}  // namespace

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

void Table::AddRow(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

std::string Table::ToString() const {
  struct Unref {
    void operator()(libscols_table* t) const { scols_unref_table(t); }
  };
  const Utf8 utf8;
  std::unique_ptr<libscols_table, Unref> table(scols_new_table());
  scols_table_enable_noencoding(table.get(), 1);
  scols_table_set_column_separator(table.get(), "  ");
  for (const Column& column : columns_) {
    scols_table_new_column(table.get(), column.name.c_str(), 0, column.right ? SCOLS_FL_RIGHT : 0);
  }
  for (const auto& row : rows_) {
    libscols_line* line = scols_table_new_line(table.get(), nullptr);
    for (size_t i = 0; i < row.size(); ++i) {
      scols_line_set_data(line, i, utf8.Decodable(row[i]).c_str());
    }
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
