package console

import (
	"embed"
	"path"
)

//go:embed static templates
var files embed.FS

// A file is a constant file that pages load.
type file struct {
	contentType string
	content     []byte
}

// contentTypes are the media types of files by extension.
var contentTypes = map[string]string{
	".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
}

// static returns the files by path.
func static() map[string]file {
	all := map[string]file{}
	entries, err := files.ReadDir("static")
	if err != nil {
		panic(err) //nolint:forbidigo // the files are embedded
	}
	for _, entry := range entries {
		content, err := files.ReadFile("static/" + entry.Name())
		if err != nil {
			panic(err) //nolint:forbidigo // as above
		}
		all[prefix+"/"+entry.Name()] = file{contentTypes[path.Ext(entry.Name())], content}
	}
	return all
}
