// The files of a volume and their names. Each change appends its record to the metadata log.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "zlfs/fs/reclaimer.h"
#include "zlfs/fs/volume_state.h"

namespace zlfs {

class FileTable {
 public:
  FileTable(VolumeState* state, Reclaimer* reclaimer) : state_(state), reclaimer_(reclaimer) {}

  // Takes the files that recovery found.
  void Load(Namespace space);

  // Names must be canonical (IsCanonical). Create and Open return a handle. The release of a
  // handle's last copy locks the state mutex, so the caller must not hold it. A deleted file is
  // removed with its last handle.
  IOStatus Create(const std::string& name, FileKind kind, std::shared_ptr<File>* file);
  IOStatus Open(const std::string& name, std::shared_ptr<File>* file);
  // The file is deleted with its last name.
  IOStatus Delete(const std::string& name);
  // Gives the file one more name. Errors: PathNotFound, "exists", "bad-name".
  IOStatus Link(const std::string& name, const std::string& link);
  // Returns how many names the file has.
  IOStatus CountNames(const std::string& name, std::uint64_t* count);
  // Returns whether both names are of one file.
  IOStatus AreOne(const std::string& first, const std::string& second, bool* same);
  // A file with several names gets the new name before it loses the old one. A power loss in
  // between leaves it with both.
  IOStatus Rename(const std::string& from, const std::string& to);
  // Errors: IOError if files are below `to`.
  IOStatus RenameDirectory(const std::string& from, const std::string& to);
  bool Exists(const std::string& name);
  // Returns the names of the files directly in the directory.
  std::vector<std::string> List(const std::string& directory);
  bool HasFilesBelow(const std::string& directory);
  // Makes all creations, deletions and renames durable.
  IOStatus SyncNames();
  // Returns handles of all WALs with a lower id: a deletion frees their space only later.
  std::vector<std::shared_ptr<File>> LogsBefore(std::uint64_t id);
  // Returns a file with several names once for each of them.
  std::vector<FileInfo> All();

  // The next three require the state mutex.
  // Appends a record of all extents from offset `from` on, unless the file is deleted.
  void RecordFrom(File* file, std::uint64_t from);
  // Whether the file still has a name or a handle.
  bool Has(const File& file) const { return state_->space.files.contains(file.id); }
  // Appends records of all names and extents.
  void Describe(std::vector<Record>* records) const;

 private:
  IOStatus CheckWritable() const;
  // The functions below require the state mutex.
  bool HasBelow(const std::string& directory) const;
  // Returns null if no file has the name.
  std::shared_ptr<File> Find(const std::string& name) const;
  // Applies the record and appends it to the log. Returns its log position.
  std::uint64_t Change(const Record& record);
  std::shared_ptr<File> Handle(const std::shared_ptr<File>& file);
  // Marks a file without a name as deleted. Frees its extents when no handle is left.
  void Forget(const std::shared_ptr<File>& file);

  VolumeState* const state_;
  Reclaimer* const reclaimer_;
};

}  // namespace zlfs
