# `cmake --install`: the program, the model zoo, and the libraries with a package config, so that
# another project can say find_package(tandem) and link tandem::train.
