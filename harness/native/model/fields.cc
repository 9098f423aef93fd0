#include "model/fields.h"

#include <cmath>

namespace zonemodel {

bool IsCount(const Json& value) {
  return value.is_number_unsigned() ||
         (value.is_number_integer() && value.get<std::int64_t>() >= 0);
}

std::optional<std::uint64_t> ShareOf(const Json& number) {
  if (!number.is_number()) return std::nullopt;
  const double share = number.get<double>() * (static_cast<double>(kWhole) / 100);
  if (!(share >= 0) || share > 1e13) return std::nullopt;
  return static_cast<std::uint64_t>(std::llround(share));
}

Fields::Fields(const Json& object, std::string where) : object_(&object), where_(std::move(where)) {
  if (!object.is_object()) {
    throw BadInput(where_ + " is not an object with fields", "see harness/native/model/README.md");
  }
}

const Json& Fields::Get(const std::string& name) {
  read_.insert(name);
  const auto found = object_->find(name);
  if (found == object_->end()) {
    throw BadInput(where_ + "." + name + " is missing",
                   "add the field, see harness/native/model/README.md");
  }
  if (!found->is_object() || !found->contains("value")) return *found;
  for (const auto& [field, value] : found->items()) {
    if (field != "value" && field != "origin" && field != "source") {
      throw Refuse(name, "has the unknown field '" + field + "'",
                   "an object has the fields value, origin and source");
    }
  }
  return found->at("value");
}

namespace {

template <typename Parse>
auto Text(const Fields& fields, const std::string& name, const Json& value, Parse parse) {
  if (!value.is_string()) {
    throw fields.Refuse(name, "has no unit", "write number and unit as text, for example \"12us\"");
  }
  try {
    return parse(value.get<std::string>());
  } catch (const BadInput& bad) {
    throw fields.Refuse(name, std::string(": ") + bad.what(), bad.hint);
  }
}

}  // namespace

Time Fields::GetTime(const std::string& name) { return Text(*this, name, Get(name), ParseTime); }

Bytes Fields::GetBytes(const std::string& name) { return Text(*this, name, Get(name), ParseBytes); }

std::uint64_t Fields::GetBandwidth(const std::string& name) {
  return Text(*this, name, Get(name), ParseBandwidth);
}

Rate Fields::GetRate(const std::string& name) { return Text(*this, name, Get(name), ParseRate); }

Bytes Fields::BytesOf(const std::string& name, const Json& part) const {
  return Text(*this, name, part, ParseBytes);
}

std::uint64_t Fields::GetCount(const std::string& name, std::uint64_t least, std::uint64_t most) {
  const Json& value = Get(name);
  if (!IsCount(value) || value.get<std::uint64_t>() < least || value.get<std::uint64_t>() > most) {
    throw Refuse(
        name, "is not a count in range",
        "write a whole number from " + std::to_string(least) + " to " + std::to_string(most));
  }
  return value.get<std::uint64_t>();
}

std::string Fields::GetText(const std::string& name) {
  const Json& value = Get(name);
  if (!value.is_string()) throw Refuse(name, "is not text", "write it in quotes");
  return value.get<std::string>();
}

bool Fields::GetBool(const std::string& name) {
  const Json& value = Get(name);
  if (!value.is_boolean()) throw Refuse(name, "is neither true nor false", "write true or false");
  return value.get<bool>();
}

std::uint64_t Fields::GetShare(const std::string& name, std::uint64_t most) {
  const std::optional<std::uint64_t> share = ShareOf(Get(name));
  if (!share || *share > most) {
    throw Refuse(name, "is not a share in range",
                 "write a number of % from 0 to " + std::to_string(most * 100 / kWhole));
  }
  return *share;
}

void Fields::Finish() const {
  for (const auto& [name, value] : object_->items()) {
    if (!read_.contains(name)) {
      throw Refuse(name, "is no field", "check the spelling, see harness/native/model/README.md");
    }
  }
}

BadInput Fields::Refuse(const std::string& name, const std::string& why,
                        const std::string& hint) const {
  return {where_ + "." + name + (why.starts_with(':') ? why : " " + why), hint};
}

}  // namespace zonemodel
