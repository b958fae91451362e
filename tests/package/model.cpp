// Prints what the converter says to a folder that is not there.
#include <cstdio>

#include "microscale/checkpoint.hpp"
#include "microscale/error.hpp"

int main() try {
  microscale::quantize_model({.input = "no such folder", .output = "never written"});
} catch (const microscale::Error& error) {
  std::puts(error.what());
}
