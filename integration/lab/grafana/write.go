package grafana

import (
	"errors"
	"os"
	"path/filepath"
)

// Files returns all that is generated, by the names of files: a dashboard each, and the rules.
func Files() (map[string][]byte, error) {
	rules, err := Rules(Records(), Alerts())
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{"rules.yaml": rules}
	for _, d := range Dashboards() {
		text, err := d.JSON()
		if err != nil {
			return nil, err
		}
		out[d.Name+".json"] = text
	}
	return out, nil
}

// Write writes [Files] into a folder.
func Write(dir string) error {
	files, err := Files()
	if err != nil {
		return err
	}
	for name, text := range files {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), text, 0o644))
	}
	return err
}
