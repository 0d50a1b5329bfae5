package hostpaths

// Walk says where a name leads in a world below a directory.
func Walk(root, name string) (Lead, error) {
	return lookerAt(root, func(string) error { return nil }).walk(name)
}
