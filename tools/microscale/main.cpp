// The program: everything else is in microscale_program, which the Python package links too.
#include "program.hpp"

int main(int argc, char** argv) {
  return microscale::run_program({argv + (argc > 0), argv + argc});
}
