"""opbridge's own translations, one module a family. `opbridge.registry` imports every module here when first asked."""
