// Package yamlfile reads files that people write in YAML, such as those of tasks and of jobs: bounded, and with the line of everything that is
// wrong or odd. It is pure: it is given the bytes of a file and its name.
//
// A file is bounded before it is parsed, and so is the work that its aliases make. What is odd is found, and who reads the file decides whether
// that is an error.
package yamlfile
