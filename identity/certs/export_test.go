package certs

// The parsers of what stands in files.
var (
	ParseCertificates = parseCertificates
	ParseKey          = parseKey
	Belongs           = belongs
)
