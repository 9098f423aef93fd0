#include "zlfs/meta/namespace.h"

#include <algorithm>
#include <filesystem>
#include <utility>
#include <variant>

namespace zlfs {
namespace {

IOStatus Corrupt(const std::string& what) { return IOStatus::Corruption("corrupt-record", what); }

std::string Id(std::uint64_t file) { return "file " + std::to_string(file); }

struct Applier {
  Namespace* space;
  std::uint64_t frame;

  void Drop(std::shared_ptr<File> file) {
    if (space->gone) {
      space->gone(file);
    } else {
      space->files.erase(file->id);
    }
  }
  // Assigns the name to the file. The previous file with this name loses it.
  void Name(const std::shared_ptr<File>& file, const std::string& name) {
    const std::shared_ptr<File> before = std::exchange(space->names[name], file);
    if (before != nullptr && before != file) Lose(before, name);
  }
  // Removes one of the file's names. Drops the file with its last name.
  void Lose(const std::shared_ptr<File>& file, const std::string& name) {
    if (file->links.empty()) return Drop(file);
    if (file->name == name) std::swap(file->name, file->links.back());
    std::erase(file->links, name);
  }

  IOStatus operator()(const StateRecord& r) {
    if (r.next_file < space->next_file) return Corrupt("next file id goes back");
    space->next_file = r.next_file;
    return IOStatus::OK();
  }
  IOStatus operator()(const CreateRecord& r) {
    if (!IsCanonical(r.name)) return Corrupt(Id(r.file) + " has the name '" + r.name + "'");
    if (r.file == 0 || space->files.contains(r.file)) return Corrupt(Id(r.file) + " exists");
    if (space->whole != (r.file >= space->next_file)) {
      return IOStatus::Corruption("corrupt-id", Id(r.file) + " does not fit the next file id");
    }
    const auto file = std::make_shared<File>(
        FileInfo{.id = r.file, .kind = r.kind, .name = r.name, .modified = r.modified});
    space->files[r.file] = file;
    Name(file, r.name);
    space->next_file = std::max(space->next_file, r.file + 1);
    return IOStatus::OK();
  }
  IOStatus operator()(const ExtentsRecord& r) {
    const auto file = space->files.find(r.file);
    if (file == space->files.end()) return Corrupt("extents of missing " + Id(r.file));
    if (r.from > file->second->size) return Corrupt(Id(r.file) + " has a gap");
    file->second->Cut(r.from);
    file->second->lifetime = r.lifetime;
    for (const Extent& extent : r.extents) {
      if (extent.length == 0) return Corrupt(Id(r.file) + " has an empty extent");
      file->second->Append(extent, frame);
    }
    return IOStatus::OK();
  }
  IOStatus operator()(const RenameRecord& r) {
    const auto file = space->files.find(r.file);
    if (file == space->files.end()) return Corrupt("rename of missing " + Id(r.file));
    if (!IsCanonical(r.name)) return Corrupt(Id(r.file) + " gets the name '" + r.name + "'");
    if (!file->second->links.empty()) return Corrupt("rename of linked " + Id(r.file));
    space->names.erase(file->second->name);
    Name(file->second, r.name);
    file->second->name = r.name;
    return IOStatus::OK();
  }
  IOStatus operator()(const DeleteRecord& r) {
    const auto file = space->files.find(r.file);
    if (file == space->files.end()) return Corrupt("deletion of missing " + Id(r.file));
    if (!file->second->links.empty()) return Corrupt("deletion of linked " + Id(r.file));
    space->names.erase(file->second->name);
    Drop(file->second);
    return IOStatus::OK();
  }
  IOStatus operator()(const RenameDirRecord& r) {
    if (!IsCanonical(r.from) || !IsCanonical(r.to)) return Corrupt("directory name");
    const std::string prefix = r.from + "/";
    for (const auto& [id, file] : space->files) {
      if (file->deleted) continue;
      RETURN_IF_ERROR(Move(file, prefix, r.to, &file->name));
      for (std::string& link : file->links) RETURN_IF_ERROR(Move(file, prefix, r.to, &link));
    }
    return IOStatus::OK();
  }
  // Replaces the directory in a name of the file, if the name begins with `prefix`.
  IOStatus Move(const std::shared_ptr<File>& file, const std::string& prefix, const std::string& to,
                std::string* name) const {
    if (!name->starts_with(prefix)) return IOStatus::OK();
    space->names.erase(*name);
    *name = to + name->substr(prefix.size() - 1);
    return space->names.emplace(*name, file).second ? IOStatus::OK()
                                                    : Corrupt("two files " + *name);
  }
  IOStatus operator()(const LinkRecord& r) {
    const auto file = space->files.find(r.file);
    if (file == space->files.end()) return Corrupt("link to missing " + Id(r.file));
    if (!IsCanonical(r.name)) return Corrupt(Id(r.file) + " gets the name '" + r.name + "'");
    const auto before = space->names.find(r.name);
    if (before != space->names.end() && before->second == file->second) {
      return Corrupt(Id(r.file) + " has the name '" + r.name + "' already");
    }
    Name(file->second, r.name);
    file->second->links.push_back(r.name);
    return IOStatus::OK();
  }
  IOStatus operator()(const UnlinkRecord& r) {
    const auto entry = space->names.find(r.name);
    if (entry == space->names.end()) return Corrupt("missing name '" + r.name + "'");
    const std::shared_ptr<File> file = entry->second;
    if (file->links.empty()) return Corrupt(Id(file->id) + " loses its last name");
    space->names.erase(entry);
    Lose(file, r.name);
    return IOStatus::OK();
  }
  IOStatus operator()(const LogZoneRecord& r) {
    return space->log_zones.emplace(r.zone, r.offset).second
               ? IOStatus::OK()
               : Corrupt("zone " + std::to_string(r.zone) + " is a log zone already");
  }
  IOStatus operator()(const LogFileRecord& r) {
    const auto file = space->files.find(r.file);
    if (file == space->files.end()) return Corrupt("a log zone of missing " + Id(r.file));
    file->second->log_zones.insert(r.zone);
    return IOStatus::OK();
  }
  IOStatus operator()(const LogZoneEndRecord& r) {
    for (const auto& [id, file] : space->files) file->log_zones.erase(r.zone);
    return space->log_zones.erase(r.zone) == 1
               ? IOStatus::OK()
               : Corrupt("zone " + std::to_string(r.zone) + " is no log zone");
  }
  IOStatus operator()(const TotalsRecord& r) {
    TotalsRecord& totals = space->totals;
    if (r.collected_bytes < totals.collected_bytes || r.collected_zones < totals.collected_zones ||
        r.finishes < totals.finishes || r.resets < totals.resets) {
      return Corrupt("totals go back");
    }
    totals = r;
    return IOStatus::OK();
  }
};

}  // namespace

std::vector<Extent> Part(const std::vector<Extent>& extents, std::uint64_t from, std::uint64_t to) {
  std::vector<Extent> part;
  std::uint64_t at = 0;
  for (const Extent& extent : extents) {
    const std::uint64_t begin = std::max(at, from);
    const std::uint64_t end = std::min(at + extent.length, to);
    if (begin < end) {
      part.push_back(
          {.zone = extent.zone, .offset = extent.offset + begin - at, .length = end - begin});
    }
    at += extent.length;
  }
  return part;
}

void Join(std::vector<Extent>* extents, const Extent& extent) {
  Extent* const last = extents->empty() ? nullptr : &extents->back();
  if (last != nullptr && last->zone == extent.zone && last->end() == extent.offset) {
    last->length += extent.length;
  } else {
    extents->push_back(extent);
  }
}

void File::Cut(std::uint64_t new_size) {
  if (size <= new_size) return;
  extents = Part(extents, 0, new_size);
  frames.resize(extents.size());
  size = new_size;
}

void File::Append(const Extent& extent, std::uint64_t frame) {
  extents.push_back(extent);
  frames.push_back(frame);
  size += extent.length;
}

std::vector<Extent> Run::Replace() const {
  // Files only grow at their end, and only the collector moves content. So [begin, end) is still
  // the same content.
  const std::vector<Extent> old = std::move(file->extents);
  file->extents = Part(old, 0, begin);
  for (const Extent& extent : to) Join(&file->extents, extent);
  for (const Extent& extent : Part(old, end, file->size)) Join(&file->extents, extent);
  return Part(old, begin, end);
}

std::vector<Run> RunsIn(const Files& files, std::uint32_t zone) {
  std::vector<Run> runs;
  for (const auto& [id, file] : files) {
    std::uint64_t at = 0;
    for (const Extent& extent : file->extents) {
      const std::uint64_t next = at + extent.length;
      // Split at block boundaries, so that both parts keep whole blocks.
      for (; extent.zone == zone && at < next; at = runs.back().end) {
        const std::uint64_t end = std::min(next, at + kRunBytes);
        const bool joins = !runs.empty() && runs.back().file == file && runs.back().end == at &&
                           end - runs.back().begin <= kRunBytes;
        if (!joins) runs.push_back({.file = file, .begin = at});
        runs.back().end = end;
      }
      at = next;
    }
  }
  return runs;
}

IOStatus Namespace::Apply(const Record& record, std::uint64_t frame) {
  return std::visit(Applier{.space = this, .frame = frame}, record);
}

std::string Canonical(const std::string& path) {
  std::string name = std::filesystem::path("/" + path).lexically_normal().string();
  while (name.size() > 1 && name.back() == '/') name.pop_back();
  return name;
}

bool IsCanonical(const std::string& name) {
  return name.size() > 1 && name == Canonical(name) && name.find('\0') == std::string::npos;
}

}  // namespace zlfs
