// HTML pages: one file, nothing loaded from elsewhere.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "apps/common/text.h"

namespace wr::apps {

/// A figure in a box.
std::string fact(const std::string& value, const std::string& name);
std::string table(const std::vector<std::pair<std::string, std::string>>& rows);
/// From <!DOCTYPE html> to the title; the caller adds the body and closes body and html.
std::string page_head(const std::string& title);

}  // namespace wr::apps
