// Writes libw2l-v1.b2l and libw2l-v2.b2l with libw2l's own writer, reads them back with its
// reader, and prints what that finds, one JSON object a line, for gen_libw2l.py.

#include "b2l.h"

#include <cstdio>
#include <string>
#include <vector>

static b2l::File model(uint8_t version) {
    b2l::File file("libw2l");
    file.version = version;  // before sections are added, which copy it
    std::map<std::string, std::string> flags = {{"arch", "arch.txt"}, {"criterion", "asg"}, {std::string(1, '\0'), "leftover"}};
    file.add_section("flags").keyval(flags);
    file.add_section("config").keyval({{"criterion", "asg"}, {"name", "from libw2l"}, {"quantization", ""}});
    file.add_section("arch").utf8("C2 1 2 3 1 1 1 -1 -1\nR\nL 4 NLABEL\n");
    auto &tokens = file.add_section("tokens");
    tokens.utf8("|\na\nb\n");
    tokens.desc = "three tokens";
    std::vector<b2l::Layer> layers;
    layers.emplace_back(b2l::Layer{"C2 1 2 3 1 1 1 -1 -1", {
        b2l::Array(std::vector<float>{1.1f, -2.2f, 3.3f, -4.4f, 5.5f, 1e-40f}, {3, 1, 1, 2}),
        b2l::Array(std::vector<float>{0.5f, -0.5f}, {2})}});
    layers.emplace_back(b2l::Layer{"R", {}});
    layers.emplace_back(b2l::Layer{"L 4 NLABEL", {
        b2l::Array(std::vector<double>{1.0 / 3, -1e300, 5e-324, 2, 3, 4, 5, 6}, {2, 4}),
        b2l::Array(std::vector<int8_t>{-128, 127, 0, 5}),
        b2l::Array(std::vector<int16_t>{-32768, 32767, 1}),
        b2l::Array(std::vector<int32_t>{-2147483647, 16777217}),
        b2l::Array(std::vector<int64_t>{9007199254740993, -3}),
        b2l::Array(std::vector<float>{})}});
    file.add_section("layers").layers(layers);
    std::vector<float> transitions{0, 1, 2, 3, 4, 5, 6, 7, 8};
    file.add_section("transitions").array(transitions, {3, 3});
    std::vector<uint8_t> spm{0, 9, 10, 13, 32, 255};
    file.add_section("spm").data(spm);
    return file;
}

static std::string quoted(const std::string &s) {
    std::string out = "\"";
    char buf[8];
    for (unsigned char c : s) {
        snprintf(buf, sizeof buf, "\\u%04x", c);  // all texts here are ASCII
        out += buf;
    }
    return out + "\"";
}

static void print_text(const char *what, const std::string &section, const std::string &key, const std::string &value) {
    printf("{\"%s\": %s, \"key\": %s, \"value\": %s}\n", what, quoted(section).c_str(), quoted(key).c_str(), quoted(value).c_str());
}

// print_array reads an array where the reader stands.
static void print_array(b2l::Reader &reader, int version, const std::string &name) {
    auto array = reader.array(version);
    uint8_t *data;
    size_t size;
    array.raw(&data, &size);
    printf("{\"array\": %s, \"type\": \"%s\", \"len\": %zu, \"offset\": %zu, \"dims\": [", quoted(name).c_str(),
           array.type_str().c_str(), array.size(), reader.tell() - size);
    for (size_t i = 0; i < array.dims().size(); i++) {
        printf("%s%lld", i ? ", " : "", (long long)array.dims()[i]);
    }
    printf("], \"data\": \"");
    for (size_t i = 0; i < size; i++) {
        printf("%02x", data[i]);
    }
    printf("\"}\n");
}

static void print_layers(b2l::Reader &reader, int version) {
    auto count = reader.read64();
    for (uint64_t i = 0; i < count; i++) {
        auto arch = reader.long_string();
        float scale = 0;
        long long offset = 0;
        if (version == 1) {
            scale = reader.fp32();
            offset = (long long)reader.read64();
        }
        auto params = reader.read64();
        printf("{\"layer\": %s, \"scale\": %.9g, \"offset\": %lld, \"params\": %llu}\n", quoted(arch).c_str(), scale, offset,
               (unsigned long long)params);
        for (uint64_t j = 0; j < params; j++) {
            print_array(reader, version, "layers." + std::to_string(i) + "." + std::to_string(j));
        }
    }
}

static void print_section(b2l::Reader &reader, int version) {
    auto section = b2l::Section::read_from(reader, version, true);
    auto end = reader.tell();
    if (section.desc != "") {
        print_text("desc", section.name, "", section.desc);
    }
    if (section.type == "utf8") {
        print_text("utf8", section.name, "", section.utf8());
    } else if (section.type == "keyval") {
        for (auto &pair : section.keyval()) {
            print_text("keyval", section.name, pair.first, pair.second);
        }
    } else if (section.type == "data") {
        auto data = section.data();
        print_text("data", section.name, "", std::string(data.begin(), data.end()));
    } else {
        reader.seek(end - section.as_bytes().size());
        if (section.type == "array") {
            print_array(reader, version, section.name);
        } else {
            print_layers(reader, version);
        }
    }
    reader.seek(end);
}

int main() {
    for (int version : {1, 2}) {
        auto path = "libw2l-v" + std::to_string(version) + ".b2l";
        {
            auto file = model(version);
            auto writer = b2l::Writer::open_file(path);
            file.write_to(writer);
        }
        auto file = b2l::File::open_file(path);
        printf("{\"file\": \"%s\", \"version\": %d, \"name\": %s}\n", path.c_str(), int(file.version), quoted(file.name).c_str());
        auto reader = b2l::Reader::open_file(path);
        reader.read_bytes(4);
        reader.read8();
        reader.short_string();
        for (auto n = reader.read64(); n > 0; n--) {
            print_section(reader, version);
        }
    }
}
