package web

// FormFile is formFile, for fuzzing.
var FormFile = formFile
