"""The only places that touch private interfaces of torch, each with the releases that it was checked on."""
