#include "sim/experiments/csv.h"

#include <array>

#include "tests/support/catch.h"

namespace berth::sim {
namespace {

constexpr std::array<std::string_view, 2> kHeaders{"name,count", "name,count,note"};

std::string ErrorOf(std::string_view text) {
  CsvReader csv(text, "f.csv");
  csv.Header(kHeaders);
  while (csv.Next()) {
    csv.Name(0);
    csv.Integer(1, 1, 9);
  }
  return csv.error() ? csv.error()->ToString() : "";
}

TEST_CASE("rows are read in order, whatever ends the last line", "[csv]") {
  for (const std::string_view text : {"name,count\na,1\nb,2\n", "name,count\r\na,1\r\nb,2"}) {
    CsvReader csv(text, "f.csv");
    CHECK(csv.Header(kHeaders) == 0);
    REQUIRE(csv.Next());
    CHECK(csv.Name(0) == "a");
    CHECK(csv.Integer(1, 0, 9) == 1);
    REQUIRE(csv.Next());
    CHECK(csv.Text(0) == "b");
    CHECK_FALSE(csv.Next());
    CHECK_FALSE(csv.error());
  }
}

TEST_CASE("the header says which of the formats it is", "[csv]") {
  CsvReader csv("name,count,note\na,1,\n", "f.csv");
  CHECK(csv.Header(kHeaders) == 1);
  REQUIRE(csv.Next());
  CHECK(csv.fields() == 3);
  CHECK_FALSE(csv.OptionalInteger(2, 0, 9));
  CHECK_FALSE(csv.error());
}

TEST_CASE("hostile files end in one error with its line", "[csv]") {
  struct Row {
    std::string text;
    std::string error;
  };
  const std::vector<Row> rows{
      {"", "f.csv: no header"},
      {"name;count\n", "f.csv:1: the header must be `name,count` or `name,count,note`"},
      {"name,count\na\n", "f.csv:2: 1 fields, expected 2"},
      {"name,count\na,1,2\n", "f.csv:2: 3 fields, expected 2"},
      {"name,count\na,1\n\nb,2\n", "f.csv:3: 1 fields, expected 2"},
      {"name,count\n,1\n", "f.csv:2: name: `` is no name"},
      {"name,count\n\"a\",1\n", "f.csv:2: name: `\"a\"` is no name"},
      {std::string("name,count\na\0b,1\n", 17), "f.csv:2: name: `a?b` is no name"},
      {"name,count\n" + std::string(254, 'x') + ",1\n",
       "f.csv:2: name: `" + std::string(40, 'x') + "` is no name"},
      {"name,count\na,0\n", "f.csv:2: count: `0` is no integer in 1..9"},
      {"name,count\na,10\n", "f.csv:2: count: `10` is no integer in 1..9"},
      {"name,count\na, 1\n", "f.csv:2: count: ` 1` is no integer in 1..9"},
      {"name,count\na,+1\n", "f.csv:2: count: `+1` is no integer in 1..9"},
      {"name,count\na,1.0\n", "f.csv:2: count: `1.0` is no integer in 1..9"},
      {"name,count\na,0x1\n", "f.csv:2: count: `0x1` is no integer in 1..9"},
      {"name,count\na,99999999999999999999\n",
       "f.csv:2: count: `99999999999999999999` is no integer in 1..9"},
      {"name,count\na," + std::string(5000, '1') + "\n", "f.csv:2: longer than 4096 bytes"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text.substr(0, 40));
    CHECK(ErrorOf(row.text) == row.error);
  }
}

TEST_CASE("the first error stays", "[csv]") {
  CHECK(ErrorOf("name,count\n-,0\nb\n").starts_with("f.csv:2: count"));
}

TEST_CASE("a file that is not there is an error without a line", "[csv]") {
  const auto text = ReadInputFile("/nonexistent/f.csv");
  REQUIRE_FALSE(text);
  CHECK(text.error().ToString() == "/nonexistent/f.csv: cannot be read: No such file or directory");
}

}  // namespace
}  // namespace berth::sim
