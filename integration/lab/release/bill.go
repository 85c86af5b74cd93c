package release

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"runtime/debug"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// Bill writes a bill of materials (CycloneDX 1.6, JSON) of what commands were linked from, as Go wrote it
// into them. Its serial number and time follow from the release.
func Bill(r *Release, p Platform, modules []*debug.Module) ([]byte, error) {
	root := cdx.Component{BOMRef: "souk", Type: cdx.ComponentTypeApplication, Name: "souk",
		Version: r.Version, PackageURL: "pkg:golang/souk@" + r.Version,
		Properties: &[]cdx.Property{{Name: "commit", Value: r.Commit}, {Name: "platform", Value: p.String()}}}
	var parts []cdx.Component
	var names []string
	for _, m := range modules {
		if m.Replace != nil {
			m = m.Replace
		}
		name := "pkg:golang/" + m.Path + "@" + m.Version
		names = append(names, name)
		parts = append(parts, cdx.Component{BOMRef: name, Type: cdx.ComponentTypeLibrary, Name: m.Path,
			Version: m.Version, PackageURL: name, Scope: cdx.ScopeRequired,
			Properties: &[]cdx.Property{{Name: "go.sum", Value: m.Sum}}})
	}
	b := cdx.NewBOM()
	n := sha256.Sum256([]byte(r.Commit + " " + p.String()))
	n[6], n[8] = n[6]&0x0f|0x80, n[8]&0x3f|0x80 // RFC 9562, version 8: of one's own making
	b.SerialNumber = fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", n[:4], n[4:6], n[6:8], n[8:10], n[10:16])
	b.Metadata = &cdx.Metadata{Timestamp: r.Time.Format(time.RFC3339), Component: &root}
	b.Components = &parts
	b.Dependencies = &[]cdx.Dependency{{Ref: root.BOMRef, Dependencies: &names}}
	var out bytes.Buffer
	err := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(b, cdx.SpecVersion1_6)
	return out.Bytes(), err
}
