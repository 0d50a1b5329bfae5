package invitation

import "strconv"

// Sealed is a line of any facts whose checksum fits.
func Sealed(facts string, bundle []byte) string {
	body := coding.EncodeToString([]byte(facts)) + "." + coding.EncodeToString(bundle)
	line := prefix + "." + strconv.Itoa(len(body)+1+FingerprintLen) + "." + body
	return line + "." + fingerprint("checksum", line)
}
