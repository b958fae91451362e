// Nothing: the target of the tests' precompiled headers needs a source (cmake/tests.cmake).
