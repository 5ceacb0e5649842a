// windrow.data and checkpoints.
#include "windrow/data.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include "casters.h"
#include "windrow/checkpoint.h"

namespace wr::python {
namespace {

using namespace nb::literals;

std::map<std::string, Array> arrays_from(const nb::dict& dict) {
  std::map<std::string, Array> arrays;
  for (auto [name, value] : dict) arrays.emplace(nb::cast<std::string>(name), copied_array(value));
  return arrays;
}

void bind_files(nb::module_& n) {
  n.def(
      "read_idx", [](const std::string& path) { return data::read_idx(path); }, "path"_a,
      "MNIST's format, plain or gzip-compressed.");
  n.def(
      "read_npy", [](const std::string& path) { return data::read_npy(path); }, "path"_a);
  n.def(
      "read_npz", [](const std::string& path) { return data::read_npz(path); }, "path"_a);
  n.def(
      "write_npy", [](const std::string& path, nb::handle a) { data::write_npy(path, ArrayIn(a)); }, "path"_a,
      "array"_a);
  n.def(
      "write_npz",
      [](const std::string& path, const nb::dict& arrays, bool compress) {
        data::write_npz(path, arrays_from(arrays), compress ? data::Compress::yes : data::Compress::no);
      },
      "path"_a, "arrays"_a, "compress"_a = false);
  nb::class_<data::Table>(n, "Table", "Numbers in rows and named columns.")
      .def_ro("columns", &data::Table::columns)
      .def_ro("values", &data::Table::values)
      .def(
          "column", [](const data::Table& t, const std::string& name) { return t.column(name); }, "name"_a)
      .def("range", &data::Table::range, "first"_a, "last"_a);
  n.def(
      "read_csv",
      [](const std::string& path, const std::string& delimiter, std::optional<bool> header, nb::handle missing,
         DType dtype, const std::vector<std::string>& columns) {
        data::CsvOptions o;
        if (delimiter.size() != 1) throw nb::value_error("delimiter: one character");
        o.delimiter = delimiter[0];
        if (header) o.header = *header ? data::CsvOptions::Header::yes : data::CsvOptions::Header::no;
        if (is_number(missing)) {
          o.missing = data::CsvOptions::Missing::fill;
          o.fill = number_from(missing);
        } else if (const auto name = nb::cast<std::string>(missing); name == "nan") {
          o.missing = data::CsvOptions::Missing::nan;
        } else if (name != "refuse") {
          throw nb::value_error("missing: 'refuse', 'nan' or a number to fill in");
        }
        o.dtype = dtype;
        o.columns = columns;
        return data::read_csv(path, o);
      },
      "path"_a, "delimiter"_a = ",", "header"_a = nb::none(), "missing"_a = "refuse", "dtype"_a = Type{DType::f32},
      "columns"_a = std::vector<std::string>{});
}

void bind_sets(nb::module_& n) {
  nb::class_<data::Dataset>(n, "Dataset",
                            "Examples and what is to be learnt about them: row i of x goes with row i of y.")
      .def(
          "__init__",
          [](data::Dataset* self, nb::handle x, nb::handle y, const std::string& name,
             const std::vector<std::string>& classes) {
            new (self) data::Dataset{copied_array(x), copied_array(y), name, classes};
          },
          "x"_a, "y"_a, "name"_a = "", "classes"_a = std::vector<std::string>{})
      .def_ro("x", &data::Dataset::x)
      .def_ro("y", &data::Dataset::y)
      .def_ro("name", &data::Dataset::name)
      .def_ro("classes", &data::Dataset::classes)
      .def("__len__", &data::Dataset::count)
      .def("range", &data::Dataset::range, "first"_a, "last"_a);
  nb::class_<data::Split>(n, "Split", "Images and labels to train on, and others to test with.")
      .def_ro("train", &data::Split::train)
      .def_ro("test", &data::Split::test)
      .def("__iter__",
           [](const data::Split& s) { return nb::iter(nb::make_tuple(nb::cast(s.train), nb::cast(s.test))); });
  n.def(
      "split",
      [](const data::Dataset& all, double share, std::uint64_t seed) { return data::split(all, share, seed, here()); },
      "all"_a, "share"_a, "seed"_a = 0, "Puts a share of the examples aside, chosen at random by the seed.");
  n.def("read_mnist", &data::read_mnist, "folder"_a);
  n.def("find_fashion_mnist", &data::find_fashion_mnist);
  n.def("load_images", &data::load_images, "folder"_a = "",
        "Fashion-MNIST where it is installed, drawn digits elsewhere; .name says which.");
  n.def(
      "draw_digits", [](std::int64_t count, std::uint64_t seed) { return data::draw_digits(count, seed); }, "count"_a,
      "seed"_a = 0, "Labelled digits, drawn: x u8[n,28,28], y i32[n].");
}

void bind_loader(nb::module_& n) {
  nb::class_<data::Loader>(n, "Loader",
                           "Mini-batches in an order that depends on the seed and the epoch; iterating is one epoch.")
      .def(
          "__init__",
          [](data::Loader* self, const data::Dataset& all, std::int64_t batch, std::uint64_t seed, bool shuffle,
             bool pad, double scale, double offset, const Shape& example, int shift, bool flip, double noise,
             int ahead) {
            data::LoaderOptions o;
            o.batch = batch;
            o.seed = seed;
            o.shuffle = shuffle;
            o.rest = pad ? data::LoaderOptions::Rest::pad : data::LoaderOptions::Rest::drop;
            o.scale = static_cast<float>(scale);
            o.offset = static_cast<float>(offset);
            o.example = example;
            o.augment = {shift, flip, static_cast<float>(noise)};
            o.ahead = ahead;
            new (self) data::Loader(all, o, here());
          },
          "data"_a, "batch"_a = 64, "seed"_a = 0, "shuffle"_a = true, "pad"_a = false, "scale"_a = 0.0,
          "offset"_a = 0.0, "example"_a = nb::tuple(), "shift"_a = 0, "flip"_a = false, "noise"_a = 0.0, "ahead"_a = 2)
      .def(
          "next",
          [](data::Loader& l) {
            data::Batch* b;
            {
              nb::gil_scoped_release free;
              b = &l.next();
            }
            return nb::make_tuple(nb::cast(b->x), nb::cast(b->y));
          },
          "The next batch, of this epoch or the next one.")
      .def("__len__", &data::Loader::batches_per_epoch)
      .def_prop_rw(
          "state", [](const data::Loader& l) { return to_string(l.state()); },
          [](data::Loader& l, const std::string& text) { l.restore(data::parse_loader_state(text)); },
          "Where it stands, as text for a checkpoint; set it to go on from there.")
      .def_prop_ro("position", [](const data::Loader& l) { return l.state().next; });
}

}  // namespace

void bind_data(nb::module_& m) {
  nb::module_ n = m.def_submodule("data", "Files, image sets, loaders.");
  bind_files(n);
  bind_sets(n);
  bind_loader(n);
  nb::class_<Safetensors>(m, "Safetensors")
      .def_ro("tensors", &Safetensors::tensors)
      .def_ro("metadata", &Safetensors::metadata);
  m.def("read_safetensors", &read_safetensors, "path"_a, "Reads F32, F64, I32, U8 and BOOL.");
  m.def(
      "write_safetensors",
      [](const std::string& path, const nb::dict& tensors, const Metadata& metadata) {
        write_safetensors(path, arrays_from(tensors), metadata);
      },
      "path"_a, "tensors"_a, "metadata"_a = Metadata{}, "The file appears complete or not at all.");
  const auto states_of = [](const nb::dict& states) {
    CheckpointStates all;
    for (auto [name, state] : states) all.add(nb::cast<std::string>(name), nb::cast<State>(state));
    return all;
  };
  m.def(
      "save_checkpoint",
      [states_of](const std::string& path, const nb::dict& states, const Metadata& metadata) {
        save_checkpoint(path, states_of(states), metadata);
      },
      "path"_a, "states"_a, "metadata"_a = Metadata{}, "Writes the states, a dict by name, to a safetensors file.");
  m.def(
      "load_checkpoint",
      [states_of](const std::string& path, const nb::dict& states) { return load_checkpoint(path, states_of(states)); },
      "path"_a, "states"_a, "Sets all states to what the file holds and gives its metadata; all or none.");
}

}  // namespace wr::python
