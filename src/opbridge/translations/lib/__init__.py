"""What translations of several families are made of; no translation is registered here."""
