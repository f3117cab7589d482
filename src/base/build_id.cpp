#include "base/build_id.h"

#include <elf.h>
#include <fmt/format.h>

#include <cstddef>
#include <cstring>
#include <fstream>
#include <vector>

namespace tandem {
namespace {

/// Programs have notes of some hundred bytes; a damaged file may claim any size.
constexpr std::size_t largest_notes = 1 << 16;

std::vector<char> read_at(std::ifstream& file, std::size_t offset, std::size_t bytes) {
  std::vector<char> content(bytes);
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(content.data(), static_cast<std::streamsize>(bytes));
  if (!file) content.clear();
  return content;
}

template <typename Value>
bool read_value(const std::vector<char>& content, std::size_t offset, Value& value) {
  if (offset > content.size() || content.size() - offset < sizeof value) return false;
  std::memcpy(&value, content.data() + offset, sizeof value);
  return true;
}

constexpr std::size_t padded(std::size_t bytes) { return (bytes + 3) & ~std::size_t{3}; }

std::string id_in(const std::vector<char>& notes) {
  Elf64_Nhdr note{};
  for (std::size_t at = 0; read_value(notes, at, note);) {
    const std::size_t name = at + sizeof note;
    const std::size_t id = name + padded(note.n_namesz);
    const std::size_t end = id + note.n_descsz;
    if (end > notes.size()) return {};
    const bool by_gnu = note.n_namesz == sizeof ELF_NOTE_GNU &&
                        std::memcmp(notes.data() + name, ELF_NOTE_GNU, sizeof ELF_NOTE_GNU) == 0;
    if (note.n_type == NT_GNU_BUILD_ID && by_gnu) {
      std::string digits;
      for (std::size_t byte = id; byte < end; ++byte) {
        digits += fmt::format("{:02x}", static_cast<unsigned char>(notes[byte]));
      }
      return digits;
    }
    at = id + padded(note.n_descsz);
  }
  return {};
}

}  // namespace

std::string build_id(const std::filesystem::path& program) {
  std::ifstream file(program, std::ios::binary);
  Elf64_Ehdr header{};
  if (!read_value(read_at(file, 0, sizeof header), 0, header)) return {};
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return {};
  if (header.e_ident[EI_CLASS] != ELFCLASS64) return {};
  for (std::size_t index = 0; index < header.e_phnum; ++index) {
    Elf64_Phdr segment{};
    const std::size_t offset = header.e_phoff + index * sizeof segment;
    if (!read_value(read_at(file, offset, sizeof segment), 0, segment)) return {};
    if (segment.p_type != PT_NOTE || segment.p_filesz > largest_notes) continue;
    std::string id = id_in(read_at(file, segment.p_offset, segment.p_filesz));
    if (!id.empty()) return id;
  }
  return {};
}

}  // namespace tandem
