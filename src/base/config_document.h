#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/config_table.h"
#include "base/toml_parser.h"

// What a ConfigTable is of, for .cpp files only (base/toml_parser.h).

namespace tandem {

/// One table of the document, with what has been asked of it. Children are kept so that finish()
/// reaches every table that was handed out.
struct ConfigTable::Node {
  toml::table* table = nullptr;  // null: the table is absent
  Node* parent = nullptr;
  std::string key{};  // in the parent
  std::string path;   // dotted name of the table, "" for the root
  std::set<std::string, std::less<>> known;
  std::map<std::string, std::vector<Node*>, std::less<>> children;
};

/// The text and every node that was made for it.
struct ConfigTable::Document {
  toml::table root;
  std::string origin;
  std::filesystem::path folder = ".";
  std::vector<std::unique_ptr<Node>> nodes;
  bool has_overrides = false;

  Node* make_node() { return nodes.emplace_back(std::make_unique<Node>()).get(); }
};

}  // namespace tandem
