#include "base/build_id.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "support/temporary_folder.h"

namespace tandem {
namespace {

template <typename Value>
void append(std::string& bytes, const Value& value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void append_note(std::string& bytes, unsigned type, const std::string& id) {
  append(bytes,
         Elf64_Nhdr{.n_namesz = 4, .n_descsz = static_cast<unsigned>(id.size()), .n_type = type});
  bytes.append("GNU\0", 4).append(id).append((4 - id.size() % 4) % 4, '\0');
}

/// A program of nothing but notes: of another kind first, in a segment of its own, as linkers do.
std::string program_with(const std::string& id) {
  std::string abi;
  append_note(abi, NT_GNU_ABI_TAG, "12345");
  std::string notes;
  append_note(notes, NT_GNU_PROPERTY_TYPE_0, "123");
  append_note(notes, NT_GNU_BUILD_ID, id);
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_phoff = sizeof header;
  header.e_phnum = 3;
  Elf64_Phdr segment{};
  std::string bytes;
  append(bytes, header);
  segment.p_type = PT_LOAD;
  append(bytes, segment);
  segment.p_type = PT_NOTE;
  segment.p_offset = sizeof header + 3 * sizeof segment;
  segment.p_filesz = abi.size();
  append(bytes, segment);
  segment.p_offset += abi.size();
  segment.p_filesz = notes.size();
  append(bytes, segment);
  return bytes + abi + notes;
}

std::string id_of(const TemporaryFolder& folder, const std::string& bytes) {
  std::ofstream(folder / "program", std::ios::binary) << bytes;
  return build_id(folder / "program");
}

TEST(BuildId, IsReadFromTheNotesOfAProgram) {
  const TemporaryFolder folder;
  EXPECT_EQ(id_of(folder, program_with("\x01\x23\xab\xff\x10")), "0123abff10");
}

TEST(BuildId, IsEmptyWhereThereIsNone) {
  const TemporaryFolder folder;
  const std::string program = program_with("\x01\x23\xab\xff\x10");
  for (std::size_t bytes = 0; bytes + 4 < program.size(); ++bytes) {
    EXPECT_EQ(id_of(folder, program.substr(0, bytes)), "") << "cut to " << bytes << " bytes";
  }
  EXPECT_EQ(id_of(folder, "#!/bin/sh\n" + std::string(4096, '\n')), "");
  EXPECT_EQ(build_id("/nosuch/program"), "");
}

}  // namespace
}  // namespace tandem
