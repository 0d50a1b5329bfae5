package invitation

import "strconv"

// Sealed is a line of any facts, in format 1 or 2, whose checksum fits.
func Sealed(second bool, facts string, bundle []byte) string {
	prefix := prefix
	if second {
		prefix = admits
	}
	body := coding.EncodeToString([]byte(facts)) + "." + coding.EncodeToString(bundle)
	line := prefix + "." + strconv.Itoa(len(body)+1+FingerprintLen) + "." + body
	return line + "." + fingerprint("checksum", line)
}
