// Package taskfile reads the files of tasks and the profiles of SWOP: YAML as the original's users have written it for years, with repeated
// keys, lists of maps in one line, and numbers where text belongs. It is pure: it is given the bytes of a file and its name.
//
// Reading is lenient. What the original refuses too is an error; what it lets pass and nobody meant is a warning. Lint reports everything
// that the original's schemas do not allow. All of them say where: file:line: what is wrong, and what to do.
package taskfile
