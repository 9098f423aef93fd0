#include "zlfs/fs/file_table.h"

#include <ctime>
#include <mutex>
#include <utility>

namespace zlfs {
namespace {

IOStatus Missing(const std::string& name) { return IOStatus::PathNotFound("no such file", name); }

}  // namespace

void FileTable::Load(Namespace space) {
  state_->space = std::move(space);
  state_->space.gone = [this](const std::shared_ptr<File>& file) { Forget(file); };
  for (const auto& [id, file] : state_->space.files) {
    file->recorded = file->size;
    if (!file->lost_zone) file->log_zones.clear();  // the snapshot describes all content
  }
}

IOStatus FileTable::CheckWritable() const {
  return state_->read_only.empty() ? IOStatus::OK()
                                   : IOStatus::NotSupported("read-only", state_->read_only);
}

std::uint64_t FileTable::Change(const Record& record) {
  const std::uint64_t position = state_->log->Append(record);
  state_->space.Apply(record, 0).PermitUncheckedError();  // callers ensure that it is valid
  return position;
}

IOStatus FileTable::Create(const std::string& name, FileKind kind, std::shared_ptr<File>* file) {
  RETURN_IF_ERROR(CheckWritable());
  if (!IsCanonical(name)) return IOStatus::InvalidArgument("bad-name", name);
  file->reset();
  const std::lock_guard lock(state_->mutex);
  const auto now = static_cast<std::uint64_t>(std::time(nullptr));
  const std::uint64_t id = state_->space.next_file;
  const std::uint64_t position =
      Change(CreateRecord{.file = id, .kind = kind, .modified = now, .name = name});
  *file = Handle(state_->space.names.at(name));
  (*file)->position = position;
  return IOStatus::OK();
}

IOStatus FileTable::Open(const std::string& name, std::shared_ptr<File>* file) {
  file->reset();
  const std::lock_guard lock(state_->mutex);
  const std::shared_ptr<File> found = Find(name);
  if (found == nullptr) return Missing(name);
  *file = Handle(found);
  return IOStatus::OK();
}

std::shared_ptr<File> FileTable::Find(const std::string& name) const {
  const auto entry = state_->space.names.find(name);
  return entry == state_->space.names.end() ? nullptr : entry->second;
}

std::shared_ptr<File> FileTable::Handle(const std::shared_ptr<File>& file) {
  ++file->handles;
  return {file.get(), [this, file](File*) {
            const std::lock_guard lock(state_->mutex);
            --file->handles;
            if (file->deleted) Forget(file);
          }};
}

void FileTable::Forget(const std::shared_ptr<File>& file) {
  if (file->kind == FileKind::kLog && !file->deleted)
    state_->allocator->LogsShrank(file->reserved_for);
  if (!std::exchange(file->deleted, true)) state_->trace.Add(Step::kDeleted, file->id);
  if (file->handles > 0) return;
  state_->trace.Add(Step::kGone, file->id, file->extents.empty() ? 0 : 1);
  file->ForgetMap();
  if (!file->extents.empty()) {
    reclaimer_->FreeLater(std::move(file->extents));
    ++state_->returns;
    state_->changed.notify_all();
  }
  state_->space.files.erase(file->id);
}

IOStatus FileTable::Delete(const std::string& name) {
  RETURN_IF_ERROR(CheckWritable());
  const std::lock_guard lock(state_->mutex);
  const std::shared_ptr<File> file = Find(name);
  if (file == nullptr) return Missing(name);
  if (file->links.empty()) {
    Change(DeleteRecord{.file = file->id});
  } else {
    file->position = Change(UnlinkRecord{.name = name});
  }
  return IOStatus::OK();
}

IOStatus FileTable::Link(const std::string& name, const std::string& link) {
  RETURN_IF_ERROR(CheckWritable());
  if (!IsCanonical(link)) return IOStatus::InvalidArgument("bad-name", link);
  const std::lock_guard lock(state_->mutex);
  const std::shared_ptr<File> file = Find(name);
  if (file == nullptr) return Missing(name);
  if (Find(link) != nullptr) return IOStatus::IOError("exists", link);
  file->position = Change(LinkRecord{.file = file->id, .name = link});
  return IOStatus::OK();
}

IOStatus FileTable::CountNames(const std::string& name, std::uint64_t* count) {
  const std::lock_guard lock(state_->mutex);
  const std::shared_ptr<File> file = Find(name);
  if (file == nullptr) return Missing(name);
  *count = 1 + file->links.size();
  return IOStatus::OK();
}

IOStatus FileTable::AreOne(const std::string& first, const std::string& second, bool* same) {
  const std::lock_guard lock(state_->mutex);
  const std::shared_ptr<File> one = Find(first);
  if (one == nullptr) return Missing(first);
  const std::shared_ptr<File> other = Find(second);
  if (other == nullptr) return Missing(second);
  *same = one == other;
  return IOStatus::OK();
}

IOStatus FileTable::Rename(const std::string& from, const std::string& to) {
  RETURN_IF_ERROR(CheckWritable());
  if (!IsCanonical(to)) return IOStatus::InvalidArgument("bad-name", to);
  const std::lock_guard lock(state_->mutex);
  const std::shared_ptr<File> file = Find(from);
  if (file == nullptr) return Missing(from);
  if (Find(to) == file) return IOStatus::OK();
  if (file->links.empty()) {
    file->position = Change(RenameRecord{.file = file->id, .name = to});
  } else {
    Change(LinkRecord{.file = file->id, .name = to});
    file->position = Change(UnlinkRecord{.name = from});
  }
  return IOStatus::OK();
}

IOStatus FileTable::RenameDirectory(const std::string& from, const std::string& to) {
  if (!HasFilesBelow(from)) return IOStatus::OK();
  RETURN_IF_ERROR(CheckWritable());
  const std::lock_guard lock(state_->mutex);
  // Another thread may have created a file there since the caller checked. Recovery refuses a
  // record that gives one name to two files.
  if (HasBelow(to)) return IOStatus::IOError("directory is not empty", to);
  const std::uint64_t position = Change(RenameDirRecord{.from = from, .to = to});
  for (const auto& [name, file] : state_->space.names) {
    if (name.starts_with(to + "/")) file->position = position;
  }
  return IOStatus::OK();
}

bool FileTable::Exists(const std::string& name) {
  const std::lock_guard lock(state_->mutex);
  return Find(name) != nullptr;
}

std::vector<std::string> FileTable::List(const std::string& directory) {
  const std::string prefix = directory == "/" ? directory : directory + "/";
  std::vector<std::string> found;
  const std::lock_guard lock(state_->mutex);
  const auto& names = state_->space.names;
  for (auto entry = names.lower_bound(prefix);
       entry != names.end() && entry->first.starts_with(prefix); ++entry) {
    std::string rest = entry->first.substr(prefix.size());
    if (rest.find('/') == std::string::npos) found.push_back(std::move(rest));
  }
  return found;
}

bool FileTable::HasFilesBelow(const std::string& directory) {
  const std::lock_guard lock(state_->mutex);
  return HasBelow(directory);
}

bool FileTable::HasBelow(const std::string& directory) const {
  const auto entry = state_->space.names.lower_bound(directory + "/");
  return entry != state_->space.names.end() && entry->first.starts_with(directory + "/");
}

IOStatus FileTable::SyncNames() {
  if (state_->log == nullptr) return IOStatus::OK();
  const std::uint64_t begin = AllocationTrace::Now();
  const std::uint64_t position = state_->log->appended();
  const bool writes = position > state_->log->durable();
  const IOStatus status = reclaimer_->Commit(position);
  state_->trace.AddSync(0, writes, begin);
  return status;
}

std::vector<std::shared_ptr<File>> FileTable::LogsBefore(std::uint64_t id) {
  std::vector<std::shared_ptr<File>> logs;
  const std::lock_guard lock(state_->mutex);
  for (const auto& [other, file] : state_->space.files) {
    if (other >= id) break;
    if (file->kind == FileKind::kLog && !file->deleted) logs.push_back(Handle(file));
  }
  return logs;
}

std::vector<FileInfo> FileTable::All() {
  std::vector<FileInfo> files;
  const std::lock_guard lock(state_->mutex);
  for (const auto& [name, file] : state_->space.names) files.emplace_back(*file).name = name;
  return files;
}

void FileTable::RecordFrom(File* file, std::uint64_t from) {
  if (from == file->size) return;
  file->recorded = file->size;
  if (!file->deleted) file->position = state_->log->Append(RecordOf(*file, from));
}

void FileTable::Describe(std::vector<Record>* records) const {
  for (const auto& [name, file] : state_->space.names) {
    if (name != file->name) continue;  // a link
    records->emplace_back(CreateRecord{
        .file = file->id, .kind = file->kind, .modified = file->modified, .name = name});
    if (file->recorded > 0) records->emplace_back(RecordOf(*file, 0));
    for (const std::string& link : file->links) {
      records->emplace_back(LinkRecord{.file = file->id, .name = link});
    }
  }
}

}  // namespace zlfs
