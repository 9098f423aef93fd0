// Reads the fields of a JSON object, with units. Each error names the field.

#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "model/units.h"

namespace zonemodel {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kWhole = 1'000'000'000;  // 100 %; shares are in units of 1 / kWhole

class Fields {
 public:
  // `where` names the object in messages, for example "flash" or "client reader".
  Fields(const Json& object, std::string where);

  [[nodiscard]] bool Has(const std::string& name) const { return object_->contains(name); }
  // Returns the value of a required field. If the value is an object with origin and source,
  // returns its field `value`.
  const Json& Get(const std::string& name);

  Time GetTime(const std::string& name);
  Bytes GetBytes(const std::string& name);
  std::uint64_t GetBandwidth(const std::string& name);
  Rate GetRate(const std::string& name);
  std::uint64_t GetCount(const std::string& name, std::uint64_t least = 0,
                         std::uint64_t most = std::uint64_t{1} << 32);
  std::string GetText(const std::string& name);
  bool GetBool(const std::string& name);
  // Returns a share in units of 1 / kWhole.
  std::uint64_t GetShare(const std::string& name, std::uint64_t most = kWhole);

  // Returns a size that is a part of the field's value.
  [[nodiscard]] Bytes BytesOf(const std::string& name, const Json& part) const;

  // These return the field's value, or `otherwise` if it is missing.
  Time GetTime(const std::string& name, Time otherwise) {
    return Has(name) ? GetTime(name) : otherwise;
  }
  Bytes GetBytes(const std::string& name, Bytes otherwise) {
    return Has(name) ? GetBytes(name) : otherwise;
  }
  bool GetBool(const std::string& name, bool otherwise) {
    return Has(name) ? GetBool(name) : otherwise;
  }

  // Throws BadInput if the object has a field that was not read.
  void Finish() const;
  [[nodiscard]] BadInput Refuse(const std::string& name, const std::string& why,
                                const std::string& hint) const;

 private:
  const Json* object_;
  std::string where_;
  std::set<std::string> read_;
};

// Returns whether a value is a whole number that is not negative.
bool IsCount(const Json& value);
// Converts a percentage to units of 1 / kWhole. Returns nullopt if it is not a number of 0 or more.
std::optional<std::uint64_t> ShareOf(const Json& number);

}  // namespace zonemodel
